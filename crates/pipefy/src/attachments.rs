//! Attachments: a place in Pipefy's storage is asked for, the bytes are put there, a field is pointed at them.
//! Root field `createPresignedUrl` of the public endpoint; the bytes go through [`crate::Transfer`].

use crate::document::documents::attachments as documents;
use crate::operation::Mutation;

/// Asks for a place in storage; answers `url` (to put to, short-lived) and `downloadUrl`. Nulls are sent.
pub fn create_presigned_url(
    organization_id: &str,
    file_name: &str,
    content_type: Option<&str>,
    content_length: Option<u64>,
) -> Mutation {
    Mutation::new(&documents::CREATE_PRESIGNED_URL)
        .var("organizationId", organization_id)
        .var("fileName", file_name)
        .var("contentType", content_type)
        .var("contentLength", content_length)
}
