//! Attachments: files put into Pipefy's storage and referred to by a field.

mod create_attachment_presigned_url;
mod field;
mod mime;
mod source;
mod upload;
mod upload_attachment_to_card;
mod upload_attachment_to_table_record;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::write::<upload_attachment_to_card::UploadAttachmentToCard>(),
    Row::write::<upload_attachment_to_table_record::UploadAttachmentToTableRecord>(),
    Row::write::<create_attachment_presigned_url::CreateAttachmentPresignedUrl>(),
];

#[cfg(test)]
mod tests;
