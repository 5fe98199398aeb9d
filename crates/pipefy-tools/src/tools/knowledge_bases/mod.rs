//! Knowledge bases of a pipe.

mod data_lookup;
mod document;
mod item;
mod plain_text;
mod reads;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<reads::GetAiKnowledgeBases>(),
    Row::read::<reads::GetAiKnowledgeBasePlainText>(),
    Row::write::<plain_text::CreateAiKnowledgeBasePlainText>(),
    Row::write::<plain_text::UpdateAiKnowledgeBasePlainText>(),
    Row::write::<plain_text::DeleteAiKnowledgeBasePlainText>(),
    Row::read::<reads::GetAiKnowledgeBaseDocument>(),
    Row::write::<document::CreateAiKnowledgeBaseDocument>(),
    Row::write::<document::UpdateAiKnowledgeBaseDocument>(),
    Row::write::<document::DeleteAiKnowledgeBaseDocument>(),
    Row::read::<reads::GetAiKnowledgeBaseDataLookup>(),
    Row::write::<data_lookup::CreateAiKnowledgeBaseDataLookup>(),
    Row::write::<data_lookup::UpdateAiKnowledgeBaseDataLookup>(),
    Row::write::<data_lookup::DeleteAiKnowledgeBaseDataLookup>(),
    Row::read::<reads::ValidateKnowledgeBaseAccess>(),
];
