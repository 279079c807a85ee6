//! What the derive accepts, and what it says about what it does not.
//!
//! After a change of a message: `TRYBUILD=overwrite cargo test -p inbox-macros`, and read the diff.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
