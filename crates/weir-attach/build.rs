//! Compiles the BPF programs if the feature `bpf` is enabled. Without clang, the error explains how
//! to install it or how to build without the feature.

fn main() {
    #[cfg(feature = "bpf")]
    programs::build();
}

#[cfg(feature = "bpf")]
mod programs {
    use std::path::PathBuf;

    /// Headers for the programs of all crates.
    const COMMON: &str = "../weir-linux/bpf";

    pub(super) fn build() {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        println!("cargo:rerun-if-changed=bpf");
        println!("cargo:rerun-if-changed={COMMON}");
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source("bpf/attach.bpf.c")
            .obj(out.join("attach.bpf.o"))
            .clang_args(["-Wall", "-Werror", "-O2", "-mcpu=v3", "-I", COMMON])
            .build();
        if let Err(error) = built {
            panic!(
                "bpf/attach.bpf.c: {error:#}\nclang, libelf-dev and zlib1g-dev are needed (`make \
                 setup` installs them); without BPF: cargo build --no-default-features"
            );
        }
    }
}
