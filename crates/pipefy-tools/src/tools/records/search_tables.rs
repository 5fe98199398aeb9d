use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fuzzy;
use crate::tools::shared::list_at;
use crate::{Call, Domain, Explain, IdKind, Op, Outcome, Page, Persona, Reach, Read, Shape, ToolError, dig, page_size};

/// Finds database tables by name (typos allowed), or lists them, by organization.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SearchTables {
    #[serde(default)]
    table_name: Option<String>,
    /// Tables read per organization, 1..500.
    #[serde(default = "hundred")]
    first: i64,
}

fn hundred() -> i64 {
    100
}

impl Read for SearchTables {
    const OP: Op = Op::read("search_tables", Domain::Database, Shape::EnvelopeOrRaw)
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator])
        .reaches(Reach::Listing(&[("organizations.tables", IdKind::Table), ("organizations", IdKind::Organization)]));

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        page_size("first", Some(self.first), 500)?;
        let name = self.table_name.filter(|name| !name.is_empty());
        let data = call
            .query(tables::search_tables(self.first))
            .await
            .map_err(|e| Explain::doing("search tables").map(call, e))?;
        let data = data.value();
        let rows: Vec<Map<String, Value>> = list_at(&data, "organizations")
            .iter()
            .filter_map(|organization| row(organization, name.as_deref()))
            .collect();
        let more = rows.iter().any(|row| row.contains_key("tables_has_next_page"));
        let page = Page { page_size: Some(self.first), ..Page::default() };
        Ok(Outcome::new(json!({
            "organizations": rows,
            "search_limits": { "tables_first": self.first, "tables_has_next_page": more },
        }))
        .message("Table search done.")
        .page(Some(page)))
    }
}

/// `None` when a name was given and no table of the organisation fits.
fn row(organization: &Value, name: Option<&str>) -> Option<Map<String, Value>> {
    let all = list_at(organization, "tables.nodes");
    let tables: Vec<Value> = match name {
        None => all.to_vec(),
        Some(name) => {
            let mut matches: Vec<(f64, &Value)> = all
                .iter()
                .filter_map(|table| Some((fuzzy::score(name, table.get("name")?.as_str()?)?, table)))
                .collect();
            matches.sort_by(|a, b| b.0.total_cmp(&a.0));
            matches
                .into_iter()
                .map(|(score, table)| {
                    let mut table = table.clone();
                    if let Value::Object(table) = &mut table {
                        table.insert("match_score".to_owned(), fuzzy::rounded(score).into());
                    }
                    table
                })
                .collect()
        }
    };
    if name.is_some() && tables.is_empty() {
        return None;
    }
    let mut row = Map::new();
    for key in ["id", "name"] {
        row.insert(key.to_owned(), organization.get(key).cloned().unwrap_or_default());
    }
    row.insert("tables".to_owned(), tables.into());
    if dig(organization, "tables.pageInfo.hasNextPage").and_then(Value::as_bool) == Some(true) {
        row.insert("tables_has_next_page".to_owned(), true.into());
        let cursor = dig(organization, "tables.pageInfo.endCursor").cloned().unwrap_or_default();
        row.insert("tables_page_end_cursor".to_owned(), cursor);
    }
    Some(row)
}
