//! `completions` and `man`: made of the same definition as the command line. The gateway has them too.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use super::Exit;

/// What `completions` takes.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// What `man` takes.
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Write the pages of all subcommands into this folder, instead of printing the first one
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints the script with which a shell completes a program's arguments.
///
/// # Errors
/// The stream's.
pub fn completions(mut command: Command, arguments: &Completions, out: &mut dyn Write) -> io::Result<Exit> {
    let name = command.get_name().to_owned();
    // The generator takes no error of its stream: it must not be given one that fails.
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    out.write_all(&text)?;
    Ok(Exit::Clean)
}

/// Prints a program's manual page, or writes the pages of all its subcommands.
///
/// # Errors
/// A stream's.
pub fn man(command: Command, arguments: &Man, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    match &arguments.folder {
        None => clap_mangen::Man::new(command).render(out)?,
        Some(folder) => {
            if let Err(error) = clap_mangen::generate_to(command, folder) {
                writeln!(err, "cannot write into `{}`: {error}", folder.display())?;
                return Ok(Exit::Undecided);
            }
        }
    }
    Ok(Exit::Clean)
}
