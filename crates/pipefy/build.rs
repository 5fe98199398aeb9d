//! Turns every `graphql/<domain>/<name>.graphql` file into a constant `documents::<domain>::<NAME>`.
//!
//! The first word of the operation decides the constant's type (`QueryDocument` or `MutationDocument`), so the compiler
//! knows what may be repeated. A first line `# endpoint: internal` or `# endpoint: interfaces` names another endpoint than
//! the public one. Comments and layout are dropped here, and the text is escaped as JSON once, so no call pays for either.

use std::fmt::Write as _;
use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=graphql");
    println!("cargo:rerun-if-changed=build.rs");
    let root = Path::new("graphql");
    let mut code = String::new();
    let mut all = Vec::new();
    for domain in sorted(root)? {
        if !domain.is_dir() || domain.ends_with("schema") {
            continue;
        }
        println!("cargo:rerun-if-changed={}", domain.display());
        let domain_name = name_of(&domain);
        let _ =
            writeln!(code, "/// Documents of `graphql/{domain_name}`.\npub mod {domain_name} {{\n    use super::*;");
        for file in sorted(&domain)? {
            if file.extension().is_none_or(|e| e != "graphql") {
                continue;
            }
            let text = fs::read_to_string(&file)?;
            let name = name_of(&file);
            let endpoint = match text.lines().next().and_then(|l| l.strip_prefix("# endpoint:")).map(str::trim) {
                None => "Public",
                Some("internal") => "Internal",
                Some("interfaces") => "Interfaces",
                Some(other) => return Err(io::Error::other(format!("{}: unknown endpoint {other}", file.display()))),
            };
            let compact = compact(&text);
            let kind = match compact.split(|c: char| !c.is_alphabetic()).next() {
                Some("query") => "Query",
                Some("mutation") => "Mutation",
                _ => return Err(io::Error::other(format!("{}: must start with query or mutation", file.display()))),
            };
            let constant = name.to_uppercase();
            let _ = writeln!(
                code,
                "    /// `graphql/{domain_name}/{name}.graphql`\n    pub static {constant}: {kind}Document = {kind}Document(Document::fixed(\n        \"{domain_name}/{name}\",\n        EndpointKind::{endpoint},\n        OperationKind::{kind},\n        {compact:?},\n        {:?},\n    ));",
                json_string(&compact),
            );
            all.push(format!("&{domain_name}::{constant}.0"));
        }
        code.push_str("}\n\n");
    }
    let _ = writeln!(
        code,
        "/// Every document, in file order.\npub static ALL: &[&Document] = &[\n    {}\n];",
        all.join(",\n    ")
    );
    #[allow(clippy::disallowed_methods, reason = "this is how Cargo names the folder to write to")]
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("documents.rs"), code)
}

fn sorted(folder: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Drops comment lines and folds white space; our documents hold no string literals with blanks or `#`.
fn compact(text: &str) -> String {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
        .replace("{ ", "{")
        .replace(" }", "}")
        .replace("( ", "(")
        .replace(" )", ")")
        .replace(", ", ",")
        .replace(": ", ":")
}

fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
