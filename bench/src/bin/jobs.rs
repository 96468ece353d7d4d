//! What jobs cost; see `tollgate_bench::jobs`.

#[derive(clap::Parser)]
#[command(about = "What jobs cost: accepting them, following many at once, and putting a film together.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::jobs::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::jobs::run(&options)
}
