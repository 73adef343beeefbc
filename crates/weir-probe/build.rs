//! Compiles the BPF programs if the feature `bpf` is enabled. Without clang, the error explains how
//! to install it or how to build without the feature.

fn main() {
    #[cfg(feature = "bpf")]
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        programs::build();
    }
}

#[cfg(feature = "bpf")]
mod programs {
    use std::path::{Path, PathBuf};

    /// The programs, each in its own object file.
    const PROGRAMS: [&str; 2] = ["watch", "events"];

    /// Headers for the programs of all crates.
    const COMMON: &str = "../weir-linux/bpf";

    pub(super) fn build() {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        println!("cargo:rerun-if-changed=bpf");
        println!("cargo:rerun-if-changed={COMMON}");
        for name in PROGRAMS {
            let source = Path::new("bpf").join(format!("{name}.bpf.c"));
            let built = libbpf_cargo::SkeletonBuilder::new()
                .source(&source)
                .obj(out.join(format!("{name}.bpf.o")))
                .clang_args(["-Wall", "-Werror", "-O2", "-mcpu=v3", "-I", COMMON])
                .build();
            if let Err(error) = built {
                panic!(
                    "{}: {error:#}\nclang, libelf-dev and zlib1g-dev are needed (`make setup` \
                     installs them); without BPF: cargo build --no-default-features",
                    source.display()
                );
            }
        }
    }
}
