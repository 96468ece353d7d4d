//! The simulation of a fleet on its own; see `tollgate_bench::fleet`.

#[derive(clap::Parser)]
#[command(about = "What a fleet of many nodes asks of its database, simulated.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::fleet::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::fleet::run(&options)
}
