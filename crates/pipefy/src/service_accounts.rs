//! Service accounts of an organisation. Root fields `createServiceAccount`, `deleteServiceAccount` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::service_accounts as documents;
use crate::operation::Mutation;

/// Creates a service account; `input` takes the keys of `CreateServiceAccountInput`. The answer holds the client secret,
/// once.
pub fn create_service_account(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_SERVICE_ACCOUNT).input(input)
}

/// Deletes a service account for good.
pub fn delete_service_account(organization_uuid: &str, service_account_uuid: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("organizationUuid".to_owned(), organization_uuid.into());
    input.insert("serviceAccountUuid".to_owned(), service_account_uuid.into());
    Mutation::new(&documents::DELETE_SERVICE_ACCOUNT).input(input)
}
