//! The schema and raw GraphQL.

mod execute_graphql;
mod introspect_type;
mod root_field;
mod search_schema;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<introspect_type::IntrospectType>(),
    Row::read::<root_field::IntrospectQuery>(),
    Row::read::<root_field::IntrospectMutation>(),
    Row::read::<search_schema::SearchSchema>(),
    Row::write::<execute_graphql::ExecuteGraphql>(),
];
