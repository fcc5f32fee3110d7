//! `route-contract completions` and `route-contract man`: made of the same definition as the command line.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Exit, Stop, Streams};

#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct Man {
    /// Write the pages of all subcommands into this folder, instead of printing the first one
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub fn completions(arguments: &Completions, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let mut command = super::Arguments::command();
    let name = command.get_name().to_owned();
    // The generator takes no error of its stream: it must not be given one that fails.
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    streams.out.write_all(&text)?;
    Ok(Exit::Clean)
}

pub fn man(arguments: &Man, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let command = super::Arguments::command();
    match &arguments.folder {
        None => clap_mangen::Man::new(command).render(&mut streams.out)?,
        Some(folder) => clap_mangen::generate_to(command, folder)
            .map_err(|error| streams.stop(format_args!("cannot write into `{}`: {error}", folder.display())))?,
    }
    Ok(Exit::Clean)
}
