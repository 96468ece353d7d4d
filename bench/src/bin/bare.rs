//! The bare proxy on its own; see `tollgate_bench::bare`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(clap::Parser)]
#[command(about = "The bare proxy on its own.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::bare::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::bare::run(&options)
}
