//! The load tool on its own; see `tollgate_bench::load`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(clap::Parser)]
#[command(about = "The load tool on its own.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::load::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::load::run(&options)
}
