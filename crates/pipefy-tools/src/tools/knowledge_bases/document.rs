//! Documents: a PDF of this machine is put into Pipefy's storage, and an item refers to it.

use std::path::{Path, PathBuf};

use pipefy::knowledge_bases::{self, Knowledge};
use pipefy::{Id, TransferError, attachments};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;

use super::item::{self, Change, Changes, Ids};
use crate::tools::classified::KNOWLEDGE;
use crate::tools::local_file;
use crate::tools::shared::{required_text, text_of};
use crate::{
    Act, Call, Domain, IdArg, IdKind, Kind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write, dig,
    unknown,
};

/// Uploads a PDF as a knowledge base document.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateAiKnowledgeBaseDocument {
    pipe_uuid: String,
    name: String,
    /// At most 900 characters.
    description: String,
    /// .pdf on the server's machine, at most 20 MiB.
    file_path: String,
}

/// Changes a knowledge base document's name or description; the file stays.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateAiKnowledgeBaseDocument {
    document_id: Id,
    pipe_uuid: String,
    #[serde(default)]
    name: Option<String>,
    /// At most 900 characters.
    #[serde(default)]
    description: Option<String>,
}

/// Deletes a knowledge base document for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteAiKnowledgeBaseDocument {
    document_id: Id,
    pipe_uuid: String,
}

const KIND: Knowledge = Knowledge::Document;
const BUILDER: &[Persona] = &[Persona::Builder];
const PIPE: IdArg = IdArg::new("pipe_uuid", IdKind::PipeUuid);
const ITEM: IdArg = IdArg::within("document_id", IdKind::KnowledgeBase);
/// Bytes of a document at most.
const LARGEST: u64 = 20 * 1024 * 1024;
const PDF: &str = "application/pdf";

/// A failure with the step it happened in.
fn at(step: &str, failure: ToolError) -> ToolError {
    failure.detail("step", step)
}

fn unread(path: &str, reason: &str) -> ToolError {
    at("file_read", ToolError::new(Kind::Input, format!("Cannot read the file '{path}': {reason}.")))
}

/// The file to upload.
pub(crate) struct Document {
    given: String,
    path: PathBuf,
    size: u64,
    pipe_uuid: String,
}

/// The size of a file that may be uploaded.
async fn look(path: &Path, given: &str) -> Result<u64, ToolError> {
    let facts = tokio::fs::metadata(path).await.map_err(|e| unread(given, &local_file::reason(&e)))?;
    if !facts.is_file() {
        return Err(unread(given, "it is no regular file"));
    }
    if facts.len() == 0 {
        return Err(unread(given, "it is empty"));
    }
    if facts.len() > LARGEST {
        return Err(unread(given, &format!("it has {} bytes, and {LARGEST} are allowed", facts.len())));
    }
    Ok(facts.len())
}

impl Write for CreateAiKnowledgeBaseDocument {
    const OP: Op = Op::write("create_ai_knowledge_base_document", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .local_only()
        .touches(&[PIPE]);
    type Keep = Document;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Document>, ToolError> {
        let (pipe_uuid, mut input) = item::new_in(&self.pipe_uuid)?;
        let pipe = pipe_uuid.as_str();
        let given = required_text("file_path", &self.file_path)?;
        item::texts(&mut input, Some(&self.name), None, Some(&self.description))?;
        let local = call.local("Upload documents where they are.").map_err(|e| at("file_read", e))?;
        if !given.to_ascii_lowercase().ends_with(".pdf") {
            return Err(unread(given, "only .pdf files are accepted"));
        }
        let path = local_file::expand(given, local).map_err(|reason| unread(given, &reason))?;
        let size = look(&path, given).await?;
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let data = call
            .query(knowledge_bases::pipe_organization(pipe))
            .await
            .map_err(|e| at("presigned_url", KNOWLEDGE.failure(e)))?;
        let organization = text_of(dig(&data.value(), "pipe.organization.id")).ok_or_else(|| {
            at(
                "presigned_url",
                ToolError::not_found(format!("Pipe {pipe} was not found, or its organization cannot be read.")),
            )
        })?;
        input.insert("documentUrl".to_owned(), unknown("downloadUrl from createPresignedUrl"));
        let presigned = attachments::create_presigned_url(&organization, &name, Some(PDF), Some(size));
        let document = Document { given: given.to_owned(), path, size, pipe_uuid: pipe_uuid.clone() };
        Ok(Plan::new(document)
            .then(presigned)
            .transfer(format!("PUT {size} bytes of {name} to the url from createPresignedUrl"))
            .then(KIND.create(input)))
    }

    async fn act(plan: &Plan<Document>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        const CREATE: &str = "createAiKnowledgeBaseDocument";
        let document = &plan.keep;
        let mut steps = plan.mutations();
        let (Some(presigned), Some(create)) = (steps.next(), steps.next()) else {
            return Err(ToolError::internal("the plan holds too few steps"));
        };
        // Opened before anything is sent, and looked at again: it may have changed since the plan.
        let size = look(&document.path, &document.given).await?;
        let file = tokio::fs::File::open(&document.path)
            .await
            .map_err(|e| unread(&document.given, &local_file::reason(&e)))?;
        if size != document.size {
            return Err(unread(&document.given, "it changed while it was being read; try again"));
        }
        let presigned =
            act.send(presigned).await.map_err(|e| at("presigned_url", KNOWLEDGE.unproven(e, "createPresignedUrl")))?;
        let presigned = presigned.value();
        let url = |key: &str| text_of(dig(&presigned, &format!("createPresignedUrl.{key}"))).filter(|u| !u.is_empty());
        let (Some(upload), Some(download)) = (url("url"), url("downloadUrl")) else {
            return Err(at(
                "presigned_url",
                ToolError::api("Pipefy gave no place in its storage (url or downloadUrl is missing)."),
            ));
        };
        let transfer = act.session.transfer();
        transfer.upload(&upload, Some(PDF), size, file, &act.budget).await.map_err(not_uploaded)?;
        let mut create = create.clone();
        if let Some(serde_json::Value::Object(input)) = create.variables_mut().get_mut("input") {
            input.insert("documentUrl".to_owned(), download.into());
        }
        let created = act.send(&create).await.map_err(|e| at("kb_create", KNOWLEDGE.unproven(e, CREATE)))?;
        item::saved(act, &created.value(), KIND, CREATE, "created").map_err(|e| at("kb_create", e))
    }

    async fn verify(plan: &Plan<Document>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        item::read_back(outcome, call, KIND, &plan.keep.pipe_uuid).await
    }
}

fn not_uploaded(error: TransferError) -> ToolError {
    let mut message = format!("The document was not uploaded: {error}.");
    if error.status().is_none() {
        message.push_str(" No knowledge base item was created.");
    }
    let failure = at("s3_upload", ToolError::new(Kind::Transport, message));
    match error.snippet() {
        Some(snippet) => failure.detail("body_snippet", snippet),
        None => failure,
    }
}

impl Changes for UpdateAiKnowledgeBaseDocument {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::write("update_ai_knowledge_base_document", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[ITEM, PIPE]);

    fn change(self) -> Result<Change, ToolError> {
        let ids = Ids::new(&self.document_id, &self.pipe_uuid)?;
        if self.name.is_none() && self.description.is_none() {
            return Err(ToolError::invalid("Give at least one of name, description."));
        }
        let mut input = Map::new();
        item::texts(&mut input, self.name.as_deref(), None, self.description.as_deref())?;
        Ok(Change::Update { ids, input })
    }
}

impl Changes for DeleteAiKnowledgeBaseDocument {
    const KIND: Knowledge = KIND;
    const OP: Op = Op::destructive("delete_ai_knowledge_base_document", Domain::Intelligence, Shape::EnvelopeOrFlat)
        .personas(BUILDER)
        .touches(&[ITEM, PIPE]);

    fn change(self) -> Result<Change, ToolError> {
        Ids::new(&self.document_id, &self.pipe_uuid).map(Change::Delete)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use crate::tools::testing::{Mock, WriteRules};

    /// A storage that answers one request with `status` and then ends; gives its base URL.
    async fn storage(status: &'static str) -> String {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let accept = tokio::time::timeout(std::time::Duration::from_secs(20), listener.accept()).await;
            let Ok(Ok((mut stream, _))) = accept else { return };
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            while !String::from_utf8_lossy(&request).ends_with("%PDF") {
                match stream.read(&mut chunk).await {
                    Ok(n) if n > 0 => request.extend_from_slice(&chunk[..n]),
                    _ => break,
                }
            }
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 6\r\nconnection: close\r\n\r\nreason");
            let _ = stream.write_all(answer.as_bytes()).await;
        });
        base
    }

    fn pdf() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("doc.pdf"), "%PDF").unwrap();
        folder
    }

    fn arguments(folder: &tempfile::TempDir) -> Value {
        json!({"pipe_uuid": "u", "name": "N", "description": "d", "file_path": folder.path().join("doc.pdf")})
    }

    fn mock(base: &str) -> Mock {
        Mock::at(base).on("pipe", json!({"organization": {"id": 9}})).on(
            "createPresignedUrl",
            json!({"url": format!("{base}/put?X-Amz-Signature=secret"), "downloadUrl": format!("{base}/get")}),
        )
    }

    #[tokio::test]
    async fn a_pdf_is_uploaded_and_referred_to() {
        let folder = pdf();
        let base = storage("200 OK").await;
        let mock = mock(&base).on("createAiKnowledgeBaseDocument", json!({"knowledgeBaseDocument": {"id": "5"}}));
        let reply = mock.reply("create_ai_knowledge_base_document", arguments(&folder)).await;
        assert_eq!(reply["data"]["knowledge_base_document"]["id"], "5", "{reply}");
        let writes = mock.writes();
        assert_eq!(writes[0].variables["contentLength"], 4);
        assert_eq!(writes[1].variables["input"]["documentUrl"], format!("{base}/get"));
    }

    #[tokio::test]
    async fn each_failure_names_its_step() {
        let folder = pdf();
        let base = storage("403 Forbidden").await;
        let refused = mock(&base);
        let reply = refused.reply("create_ai_knowledge_base_document", arguments(&folder)).await;
        assert_eq!(reply["error"]["details"]["step"], "s3_upload", "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains("403") && !reply.to_string().contains("secret"));
        assert_eq!(reply["error"]["details"]["body_snippet"], "reason");
        assert_eq!(refused.writes().len(), 1);

        let base = storage("200 OK").await;
        let denied = mock(&base).error("createAiKnowledgeBaseDocument", "no", "FORBIDDEN");
        let reply = denied.reply("create_ai_knowledge_base_document", arguments(&folder)).await;
        assert_eq!(
            reply["error"]["details"],
            json!({"kind": "permission_denied", "correlation_id": "corr-1", "step": "kb_create"})
        );

        let none = Mock::new().on("pipe", json!(null));
        let reply = none.reply("create_ai_knowledge_base_document", arguments(&folder)).await;
        assert_eq!(reply["error"]["details"]["step"], "presigned_url");

        let mut missing = arguments(&folder);
        missing["file_path"] = json!(folder.path().join("other.pdf"));
        let empty = folder.path().join("empty.PDF");
        std::fs::write(&empty, "").unwrap();
        let big = folder.path().join("big.pdf");
        std::fs::File::create(&big).unwrap().set_len(super::LARGEST + 1).unwrap();
        let place = folder.path().join("folder.pdf");
        std::fs::create_dir(&place).unwrap();
        for (path, part) in [
            (missing["file_path"].clone(), "not found"),
            (json!("note.txt"), ".pdf"),
            (json!("~nobody/a.pdf"), "~nobody/a.pdf"),
            (json!(empty), "empty"),
            (json!(big), "20971520"),
            (json!(place), "no regular file"),
        ] {
            missing["file_path"] = path;
            let mock = Mock::new();
            let reply = mock.reply("create_ai_knowledge_base_document", missing.clone()).await;
            assert_eq!(reply["error"]["details"]["step"], "file_read");
            assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{reply}");
            assert!(mock.sent().is_empty());
        }
    }

    #[tokio::test]
    async fn changing_and_deleting_write_once() {
        let sent = WriteRules::new(
            "update_ai_knowledge_base_document",
            json!({"pipe_uuid": "u", "document_id": 5, "description": " d "}),
        )
        .read("aiKnowledgeBaseDocument", json!({"id": "5"}))
        .write("updateAiKnowledgeBaseDocument", json!({"knowledgeBaseDocument": {"id": "5"}}))
        .check()
        .await;
        assert_eq!(sent[0].variables["input"], json!({"pipeUuid": "u", "documentId": "5", "description": "d"}));
        WriteRules::new("delete_ai_knowledge_base_document", json!({"pipe_uuid": "u", "document_id": 5}))
            .read("aiKnowledgeBaseDocument", json!({"id": "5"}))
            .write("deleteAiKnowledgeBaseDocument", json!({"success": true}))
            .check()
            .await;
    }
}
