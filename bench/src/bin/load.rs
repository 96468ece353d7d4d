//! The load tool as a program; see `tollgate_bench::load`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(clap::Parser)]
#[command(about = "Run the load tool alone.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::load::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::load::run(&options)
}
