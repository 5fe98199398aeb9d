//! What belongs to which pipe, table or organisation: small reads by which a restricted program decides whether an id is
//! one of its own. Root fields `pipe`, `table`, `organization`, `card`, `table_record`, `phase`, `fieldCondition`,
//! `automation`, `aiAgent`, `aiAgentLogDetails`, `pipe_relations`, `table_relations`, `organizationReport`,
//! `organizationReportExport`, `pipeReportExport`, `parsedEmailTemplate` of the public endpoint.

use crate::document::QueryDocument;
use crate::document::documents::scope as documents;
use crate::operation::Query;

/// What to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// A pipe's names and its organisation: `pipe {id uuid suid organizationId organization {id uuid}}`.
    Pipe,
    /// A table's names and its organisation: `table {id internal_id uuid organization {id uuid}}`.
    Table,
    /// An organisation's names: `organization {id uuid}`.
    Organization,
    /// A card's pipe: `card {pipe {id}}`.
    Card,
    /// A record's table: `table_record {table {id}}`.
    TableRecord,
    /// A phase's pipe: `phase {repo_id}`.
    Phase,
    /// A field condition's pipe: `fieldCondition {phase {repo_id}}`.
    FieldCondition,
    /// Where an automation listens and acts: `automation {event_repo {id} action_repo_v2 {id}}`.
    Automation,
    /// An agent's pipe or table: `aiAgent {repoUuid}`.
    Agent,
    /// The agent of a log entry: `aiAgentLogDetails {agentUuid}`.
    AgentLog,
    /// Both ends of a pipe relation: `pipe_relations [{parent {id} child {id}}]`.
    PipeRelation,
    /// Both ends of a table relation: `table_relations [{parent {id} child {id}}]`.
    TableRelation,
    /// The pipes of an organisation report: `organizationReport {repos {id}}`.
    OrganizationReport,
    /// The pipes of an exported organisation report: `organizationReportExport {report {repos {id}}}`.
    OrganizationReportExport,
    /// The report of an export: `pipeReportExport {report {id}}`.
    PipeReportExport,
    /// An e-mail template's pipe or table: `parsedEmailTemplate {repoId}`.
    EmailTemplate,
    /// What only a pipe can list: labels, reports, webhooks, fields.
    PipeContents,
    /// What only a table can list: labels, webhooks, fields.
    TableContents,
}

impl Lookup {
    const fn document(self) -> &'static QueryDocument {
        match self {
            Self::Pipe => &documents::PIPE,
            Self::Table => &documents::TABLE,
            Self::Organization => &documents::ORGANIZATION,
            Self::Card => &documents::CARD,
            Self::TableRecord => &documents::TABLE_RECORD,
            Self::Phase => &documents::PHASE,
            Self::FieldCondition => &documents::FIELD_CONDITION,
            Self::Automation => &documents::AUTOMATION,
            Self::Agent => &documents::AI_AGENT,
            Self::AgentLog => &documents::AI_AGENT_LOG,
            Self::PipeRelation => &documents::PIPE_RELATION,
            Self::TableRelation => &documents::TABLE_RELATION,
            Self::OrganizationReport => &documents::ORGANIZATION_REPORT,
            Self::OrganizationReportExport => &documents::ORGANIZATION_REPORT_EXPORT,
            Self::PipeReportExport => &documents::PIPE_REPORT_EXPORT,
            Self::EmailTemplate => &documents::EMAIL_TEMPLATE,
            Self::PipeContents => &documents::PIPE_CONTENTS,
            Self::TableContents => &documents::TABLE_CONTENTS,
        }
    }

    /// The read for one id.
    pub fn of(self, id: &str) -> Query {
        Query::new(self.document()).var("id", id)
    }
}
