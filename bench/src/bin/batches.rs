//! What batches cost; see `tollgate_bench::batches`.

#[derive(clap::Parser)]
#[command(about = "What batches cost, beside the same calls made one by one, and how fast files are taken.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::batches::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::batches::run(&options)
}
