//! The program's entry point. All code is in the library, so that tests can use it.

fn main() -> std::process::ExitCode {
    tallyd::cli::main()
}
