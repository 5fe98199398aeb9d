use pipefy::pipes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fuzzy;
use crate::tools::shared::{list_at, non_blank};
use crate::{Call, Domain, Explain, IdKind, Op, Outcome, Persona, Reach, Read, Shape, ToolError};

/// Finds the pipes this account is a member of, by name (typos allowed) or all of them, by organization. pipesCount counts
/// pipes of others too.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SearchPipes {
    #[serde(default)]
    pipe_name: Option<String>,
    /// 1..500.
    #[serde(default = "most")]
    max_pipes_per_org: i64,
}

fn most() -> i64 {
    500
}

impl Read for SearchPipes {
    const OP: Op = Op::read("search_pipes", Domain::Workflow, Shape::Raw)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator])
        .no_output_schema()
        .reaches(Reach::Listing(&[("organizations.pipes", IdKind::Pipe), ("organizations", IdKind::Organization)]));

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let name = non_blank(self.pipe_name.as_deref());
        let cap = self.max_pipes_per_org.clamp(1, 500);
        let data =
            call.query(pipes::search_pipes(name)).await.map_err(|e| Explain::doing("search pipes").map(call, e))?;
        let data = data.value();
        let rows: Vec<Map<String, Value>> = list_at(&data, "organizations")
            .iter()
            .filter_map(|organization| match name {
                Some(name) => matching(organization, name, cap as usize),
                None => Some(unfiltered(organization, cap as usize)),
            })
            .collect();
        let truncated = rows.iter().any(|row| row.contains_key("pipes_truncated"));
        Ok(Outcome::new(json!({
            "organizations": rows,
            "search_limits": {
                "max_pipes_per_org": cap,
                "graphql_name_search": name.is_some(),
                "pipes_truncated": truncated,
            },
        })))
    }
}

fn row(organization: &Value, pipes: Vec<Value>) -> Map<String, Value> {
    let mut row = Map::new();
    for key in ["id", "name"] {
        row.insert(key.to_owned(), organization.get(key).cloned().unwrap_or_default());
    }
    row.insert("pipes".to_owned(), pipes.into());
    row
}

fn unfiltered(organization: &Value, cap: usize) -> Map<String, Value> {
    let all = list_at(organization, "pipes");
    let shown = all.len().min(cap);
    let count = organization.get("pipesCount").filter(|count| count.is_number());
    let more = all.len() > cap
        || match count.and_then(Value::as_u64) {
            Some(count) => count > shown as u64,
            None => shown >= cap && shown > 0,
        };
    let mut row = row(organization, all.iter().take(cap).cloned().collect());
    row.extend(count.map(|count| ("pipesCount".to_owned(), count.clone())));
    if more {
        row.insert("pipes_truncated".to_owned(), true.into());
    }
    row
}

/// `None` when no pipe of the organisation fits.
fn matching(organization: &Value, name: &str, cap: usize) -> Option<Map<String, Value>> {
    let mut matches: Vec<(f64, &Value)> = list_at(organization, "pipes")
        .iter()
        .filter_map(|pipe| Some((fuzzy::score(name, pipe.get("name")?.as_str()?)?, pipe)))
        .collect();
    if matches.is_empty() {
        return None;
    }
    matches.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more = matches.len() > cap;
    let pipes = matches
        .into_iter()
        .take(cap)
        .map(|(score, pipe)| {
            let mut pipe = pipe.clone();
            if let Value::Object(pipe) = &mut pipe {
                pipe.insert("match_score".to_owned(), fuzzy::rounded(score).into());
            }
            pipe
        })
        .collect();
    let mut row = row(organization, pipes);
    if more {
        row.insert("pipes_truncated".to_owned(), true.into());
    }
    Some(row)
}
