//! The stub upstream as a program; see `tollgate_bench::stub`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(clap::Parser)]
#[command(about = "Run the stub upstream alone.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::stub::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::stub::run(&options)
}
