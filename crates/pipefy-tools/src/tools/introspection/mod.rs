//! The schema and raw GraphQL.

mod execute_graphql;
mod introspect_type;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] =
    &[Row::read::<introspect_type::IntrospectType>(), Row::write::<execute_graphql::ExecuteGraphql>()];
