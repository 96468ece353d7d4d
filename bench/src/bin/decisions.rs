//! The cost of typed decisions; see `tollgate_bench::decisions`.

#[derive(clap::Parser)]
#[command(
    about = "Measure the cost of typed decisions: 128 questions over a state of 20 KB, with every method."
)]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::decisions::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::decisions::run(&options)
}
