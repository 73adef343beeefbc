//! The shared library exists after a build of the tests, and Python can find its module.
//!
//! `scripts/test` puts this library into the package that it tests. Without a test here, cargo
//! would not build the library with the other tests, and a second build would compile its
//! dependencies again with other features.

#[test]
fn the_shared_library_exports_the_module() {
    let program = std::env::current_exe().expect("the path of this program");
    let library = program.with_file_name("lib_native.so");
    let library = std::fs::read(library).expect("the shared library is beside this program");
    let symbol = b"PyInit__native\0";
    assert!(library.windows(symbol.len()).any(|bytes| bytes == symbol), "no symbol PyInit__native");
}
