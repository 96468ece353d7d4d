//! The stub upstream on its own; see `tollgate_bench::stub`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(clap::Parser)]
#[command(about = "The stub upstream on its own.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::stub::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::stub::run(&options)
}
