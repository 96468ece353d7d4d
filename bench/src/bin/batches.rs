//! The cost of batches; see `tollgate_bench::batches`.

#[derive(clap::Parser)]
#[command(about = "Measure the cost of batches, compared with single calls, and the upload speed.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::batches::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::batches::run(&options)
}
