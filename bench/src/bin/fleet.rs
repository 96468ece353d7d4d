//! The simulation of a fleet as a program; see `tollgate_bench::fleet`.

#[derive(clap::Parser)]
#[command(about = "Simulate the database load of a fleet of many nodes.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::fleet::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::fleet::run(&options)
}
