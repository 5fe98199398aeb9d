//! Cards. Root fields `card`, `cards`, `createCard`, `updateCard`, `updateFieldsValues`, `updateCardField`,
//! `moveCardToPhase`, `deleteCard` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::cards as documents;
use crate::operation::{Mutation, Query};

/// One card: id, uuid, title, pipe, current phase, due date, assignees, labels and, with `include_fields`, its field names and
/// values and its comments.
pub fn get_card(card_id: &str, include_fields: bool) -> Query {
    Query::new(&documents::GET_CARD).var("card_id", card_id).var("includeFields", include_fields)
}

/// The values of a card by field: `fields{field{id uuid internal_id} value array_value}`; empty fields are left out.
pub fn get_card_values(card_id: &str) -> Query {
    Query::new(&documents::CARD_VALUES).var("id", card_id)
}

/// The fields that a card's pipe has in its start form and phases, with their types.
pub fn get_card_form(card_id: &str) -> Query {
    Query::new(&documents::CARD_FORM).var("id", card_id)
}

/// Cards of a pipe, one page: `edges{node}` and `pageInfo`. Pipefy gives at most 50 a page, whatever `first` says.
/// `search` takes the keys of the schema's `CardSearch`; `{}` finds all.
pub fn get_cards(
    pipe_id: &str,
    search: &Map<String, Value>,
    include_fields: bool,
    first: Option<i64>,
    after: Option<&str>,
) -> Query {
    Query::new(&documents::GET_CARDS)
        .var("pipe_id", pipe_id)
        .var("search", search)
        .var("includeFields", include_fields)
        .var_opt("first", first)
        .var_opt("after", after)
}

/// Cards of a pipe, one page, for rows of an export: with the value of every field and the ids of the fields.
pub fn get_card_rows(pipe_id: &str, first: Option<i64>, after: Option<&str>) -> Query {
    Query::new(&documents::GET_CARD_ROWS).var("pipe_id", pipe_id).var_opt("first", first).var_opt("after", after)
}

/// Creates a card; `input` takes the keys of the schema's `CreateCardInput`.
pub fn create_card(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_CARD).input(input)
}

/// Changes attributes of a card; `input` takes the keys of `UpdateCardInput`.
pub fn update_card(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_CARD).input(input)
}

/// Changes up to 30 field values of a card (field report B16); `values` are the schema's `values` entries.
pub fn update_fields_values(card_id: &str, values: Vec<Value>) -> Mutation {
    let mut input = Map::new();
    input.insert("nodeId".to_owned(), card_id.into());
    input.insert("values".to_owned(), values.into());
    Mutation::new(&documents::UPDATE_FIELDS_VALUES).input(input)
}

/// Replaces the value of one field.
pub fn update_card_field(card_id: &str, field_id: &str, new_value: Value) -> Mutation {
    let mut input = Map::new();
    input.insert("card_id".to_owned(), card_id.into());
    input.insert("field_id".to_owned(), field_id.into());
    input.insert("new_value".to_owned(), new_value);
    Mutation::new(&documents::UPDATE_CARD_FIELD).input(input)
}

/// Moves a card to another phase of its pipe.
pub fn move_card_to_phase(card_id: &str, phase_id: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("card_id".to_owned(), card_id.into());
    input.insert("destination_phase_id".to_owned(), phase_id.into());
    Mutation::new(&documents::MOVE_CARD_TO_PHASE).input(input)
}

/// Deletes a card for good.
pub fn delete_card(card_id: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("id".to_owned(), card_id.into());
    Mutation::new(&documents::DELETE_CARD).input(input)
}

/// Cards whose field (by slug) holds a value, one page.
pub fn find_cards(
    pipe_id: &str,
    field_id: &str,
    field_value: &str,
    include_fields: bool,
    first: Option<i64>,
    after: Option<&str>,
) -> Query {
    Query::new(&documents::FIND_CARDS)
        .var("pipeId", pipe_id)
        .var("search", serde_json::json!({ "fieldId": field_id, "fieldValue": field_value }))
        .var("includeFields", include_fields)
        .var_opt("first", first)
        .var_opt("after", after)
}

/// What [`get_records`] may be narrowed by; what is `None` is not sent.
#[derive(Clone, Debug, Default)]
pub struct RecordsQuery<'a> {
    /// Filter tree (`FilterSet`).
    pub filter: Option<Value>,
    /// Words to search for.
    pub search_term: Option<&'a str>,
    /// Only this phase.
    pub phase_id: Option<&'a str>,
    /// Sort keys (`[OrderBy!]`).
    pub order_by: Option<Value>,
    /// Also field values.
    pub include_fields: bool,
    /// Page size; Pipefy gives at most 50.
    pub first: Option<i64>,
    /// Cursor.
    pub after: Option<&'a str>,
}

/// Cards of a pipe filtered, sorted and counted by Pipefy, one page. Paging ends at 10,000 cards with a filter or a term.
pub fn get_records(pipe_id: &str, query: RecordsQuery<'_>) -> Query {
    Query::new(&documents::GET_RECORDS)
        .var("repoId", pipe_id)
        .var("includeFields", query.include_fields)
        .var_opt("where", query.filter)
        .var_opt("searchTerm", query.search_term)
        .var_opt("phaseId", query.phase_id)
        .var_opt("orderBy", query.order_by)
        .var_opt("first", query.first)
        .var_opt("after", query.after)
}

/// The cards linked to a card as children and as parents.
pub fn get_card_relations(card_id: &str) -> Query {
    Query::new(&documents::GET_CARD_RELATIONS).var("cardId", card_id)
}
