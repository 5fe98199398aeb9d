//! Presigned URLs for uploads.

use crate::access;
use crate::ctx::{Answer, Args, Ctx};
use crate::error::GqlError;
use crate::json::text;
use crate::object::Root;
use crate::storage;
use serde_json::json;

pub(crate) const ROOTS: &[Root] =
    &[Root::public("createPresignedUrl", presign), Root::public("createPresignedUrlForPipePdfTemplate", presign)];

fn presign(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::organization(ctx, &input.need("organizationId")?)?;
    let name = input.need("fileName")?;
    if name.trim().is_empty() || name.contains('/') {
        return Err(GqlError::invalid("fileName must be a file's name"));
    }
    let key = format!("orgs/{}/uploads/{}/{name}", text(&org, "uuid"), ctx.new_uuid()?);
    let content_type = input.text("contentType").filter(|t| !t.trim().is_empty());
    let sign = |method: &str, content_type: Option<&str>, life: i64| {
        storage::signed_url(ctx.store, ctx.base_url, method, &key, content_type, life, ctx.now)
    };
    Ok(json!({
        "url": sign("PUT", content_type.as_deref(), storage::UPLOAD_LIFE)?,
        "downloadUrl": sign("GET", None, storage::DOWNLOAD_LIFE)?,
    }))
}
