//! The bare proxy as a program; see `tollgate_bench::bare`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(clap::Parser)]
#[command(about = "Run the bare proxy alone.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::bare::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::bare::run(&options)
}
