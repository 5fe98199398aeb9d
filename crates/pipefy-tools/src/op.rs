//! What an operation is: one static row that everything else looks up.

use pipefy::QueryDocument;

/// What a capability may do. Read-only mode, confirmation, annotations and prompts follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Never changes anything.
    Read,
    /// Changes something that can be changed back.
    Write,
    /// Destroys something, or acts outside Pipefy for good; needs an explicit approval.
    Destructive,
    /// Decided by the input of each call (raw GraphQL, iPaaS, e-mail): the plan says what it would change.
    ByInput,
}

/// The disjoint domains of the catalogue: the eight of `contract/toolsets.json`, and bulk work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Domain {
    /// Reports and observability.
    Analytics,
    /// Automations.
    Automation,
    /// Many cards or records at once. Listed only where it is asked for by name, see [`Self::is_extra`].
    Bulk,
    /// Database tables.
    Database,
    /// Organisations, members, service accounts.
    Governance,
    /// Raw GraphQL, webhooks, iPaaS.
    Integration,
    /// AI agents, knowledge bases, providers.
    Intelligence,
    /// Portals and HTML interfaces.
    Interfaces,
    /// Pipes, phases, fields, cards.
    Workflow,
}

impl Domain {
    /// All domains, in alphabetical order.
    pub const ALL: [Self; 9] = [
        Self::Analytics,
        Self::Automation,
        Self::Bulk,
        Self::Database,
        Self::Governance,
        Self::Integration,
        Self::Intelligence,
        Self::Interfaces,
        Self::Workflow,
    ];

    /// The name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Analytics => "analytics",
            Self::Automation => "automation",
            Self::Bulk => "bulk",
            Self::Database => "database",
            Self::Governance => "governance",
            Self::Integration => "integration",
            Self::Intelligence => "intelligence",
            Self::Interfaces => "interfaces",
            Self::Workflow => "workflow",
        }
    }

    /// Whether its tools are listed only when the toolset is named, or found through the power profile: every client pays for
    /// what is listed, and few need these.
    pub const fn is_extra(self) -> bool {
        matches!(self, Self::Bulk)
    }
}

/// The six overlapping personas of the catalogue (`contract/toolsets.json`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Persona {
    /// Runs the organisation.
    Admin,
    /// Reads everything.
    Auditor,
    /// Builds processes.
    Builder,
    /// Runs processes and their structure.
    Manager,
    /// Works on cards.
    Operator,
    /// Opens requests.
    Requester,
}

impl Persona {
    /// All personas, in alphabetical order.
    pub const ALL: [Self; 6] =
        [Self::Admin, Self::Auditor, Self::Builder, Self::Manager, Self::Operator, Self::Requester];

    /// The name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Auditor => "auditor",
            Self::Builder => "builder",
            Self::Manager => "manager",
            Self::Operator => "operator",
            Self::Requester => "requester",
        }
    }
}

/// What an operation reaches beyond what its id arguments name. With scope pins (`scope.rs`) it decides what is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only what its id arguments name.
    Named,
    /// Nobody's data: the schema, lists of types, guidelines.
    Nothing,
    /// Rows of many owners; those of foreign ones are dropped. Each list is a dotted path of keys, through lists where there
    /// are some, and what its rows are; inner lists come first.
    Listing(&'static [(&'static str, IdKind)]),
    /// The organisation as a whole, whatever else its ids name: it makes pipes or accounts, or sums up over everything.
    Organization,
    /// Whatever its input says: raw GraphQL, iPaaS.
    Anything,
}

/// What kind of thing an id argument names; scope pins and audit lines need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// Organisation id or uuid.
    Organization,
    /// Pipe id.
    Pipe,
    /// Pipe uuid.
    PipeUuid,
    /// Phase id.
    Phase,
    /// Phase field id, slug or uuid.
    PhaseField,
    /// Card id.
    Card,
    /// Comment id.
    Comment,
    /// Label id.
    Label,
    /// Field condition id.
    FieldCondition,
    /// Database table id.
    Table,
    /// Database table field id.
    TableField,
    /// Record id.
    TableRecord,
    /// Pipe relation id.
    Relation,
    /// Table relation id.
    TableRelation,
    /// Automation id.
    Automation,
    /// AI agent uuid.
    Agent,
    /// Log entry of an AI agent.
    AgentLog,
    /// Pipe or table that owns an automation or agent (id or uuid).
    Repo,
    /// Pipe report id.
    Report,
    /// Export of a pipe report.
    ReportExport,
    /// Organisation report id.
    OrganizationReport,
    /// Export of an organisation report.
    OrganizationReportExport,
    /// E-mail template id.
    EmailTemplate,
    /// Webhook id.
    Webhook,
    /// Portal, page or element id.
    Interface,
    /// Knowledge base entry id.
    KnowledgeBase,
    /// LLM provider id.
    Provider,
    /// User or service account id.
    Member,
    /// Anything else.
    Other,
}

/// One argument that holds an id (or a list of ids).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdArg {
    /// Argument name.
    pub arg: &'static str,
    /// What it names.
    pub kind: IdKind,
    /// Whether Pipefy looks it up inside of what the call's other ids name, so that it cannot reach further than they do.
    pub within: bool,
}

/// How the MCP adapter shapes a success (`spec/mcp-server.md` section 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The data object as Pipefy gave it, plus extra top-level keys.
    Raw,
    /// `{success, data?, message?, pagination?}` whatever the unified-envelope setting says.
    Envelope,
    /// As [`Self::Envelope`]; with the unified envelope off, `data`'s keys are lifted to the top beside `success` and `message`.
    EnvelopeOrFlat,
    /// As [`Self::Envelope`]; with the unified envelope off, the data object alone.
    EnvelopeOrRaw,
    /// `{success, message?}` plus `data`'s keys at the top.
    Flat,
    /// `{success, message?, result: data}`.
    Result,
    /// As [`Self::Envelope`]; with the unified envelope off, as [`Self::Result`].
    EnvelopeOrResult,
    /// `{success, result: <data as indented JSON text>, data?}`; `data` only when the call asked for parsed output.
    Text,
}

/// Text in an operation's results that people outside of the organisation may have written: answers of public forms, comments,
/// e-mails, names of files. What is done about it on request is in `trust.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outsiders {
    /// There is none.
    Nowhere,
    /// Under these keys, at any depth.
    Under(&'static [&'static str]),
    /// Anywhere: the caller, or another system, names the keys.
    Anywhere,
}

impl Outsiders {
    /// Titles and field values of cards and records.
    pub const CONTENTS: Self = Self::Under(&["title", "value"]);
    /// The rows of an exported file.
    pub const ROWS: Self = Self::Under(&["csv"]);
    /// Titles of cards in logs.
    pub const CARD_TITLES: Self = Self::Under(&["cardTitle"]);
}

/// Where the pages of a listing are in its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Dotted path from the data to the list, e.g. `cards.edges`.
    pub items: &'static str,
    /// Dotted path from the data to its `pageInfo`, e.g. `cards.pageInfo`.
    pub page_info: &'static str,
    /// The `first` that `all` asks for when the call has none.
    pub page_size: i64,
}

/// Which document's selection the `fields` argument narrows.
#[derive(Clone, Copy, Debug)]
pub struct Selects {
    /// The document.
    pub document: &'static QueryDocument,
    /// Dotted path of response keys to one item, see [`pipefy::Selections`].
    pub item: &'static str,
    /// Whether the schema lists `fields`: where results are large. It is taken everywhere.
    pub listed: bool,
}

/// One operation: name, class and the facts every adapter looks up.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Tool name, snake case, unique.
    pub name: &'static str,
    /// What it may do.
    pub class: Class,
    /// Its domain.
    pub domain: Domain,
    /// The personas it belongs to.
    pub personas: &'static [Persona],
    /// Whether a hosted server offers it.
    pub remote: bool,
    /// Whether repeating it changes nothing more (an MCP hint).
    pub idempotent: bool,
    /// Whether it reaches systems beyond Pipefy (an MCP hint).
    pub open_world: bool,
    /// Whether it takes `confirm` and `confirmation_token`.
    pub confirms: bool,
    /// Whether it may ask the caller to fill in a form (elicitation).
    pub asks: bool,
    /// Whether it may write a file of this machine, though it only reads from Pipefy.
    pub saves: bool,
    /// Whether it takes `debug`.
    pub debug: bool,
    /// The ids its arguments name.
    pub touches: &'static [IdArg],
    /// What it reaches beyond them.
    pub reach: Reach,
    /// How MCP shapes a success.
    pub shape: Shape,
    /// Whether `tools/list` carries an output schema for it (as the reference does).
    pub output_schema: bool,
    /// Text of outsiders in its results.
    pub outsiders: Outsiders,
    /// How it pages, when it lists.
    pub paging: Option<Paging>,
    /// What `fields` narrows, when it can.
    pub selects: Option<Selects>,
}

impl Op {
    const fn new(name: &'static str, domain: Domain, class: Class, shape: Shape) -> Self {
        Self {
            name,
            class,
            domain,
            personas: &[],
            remote: true,
            idempotent: false,
            open_world: false,
            confirms: matches!(class, Class::Destructive),
            asks: false,
            saves: false,
            debug: false,
            touches: &[],
            reach: Reach::Named,
            shape,
            output_schema: true,
            outsiders: Outsiders::Nowhere,
            paging: None,
            selects: None,
        }
    }

    /// An operation that only reads.
    pub const fn read(name: &'static str, domain: Domain, shape: Shape) -> Self {
        Self::new(name, domain, Class::Read, shape)
    }

    /// An operation that writes.
    pub const fn write(name: &'static str, domain: Domain, shape: Shape) -> Self {
        Self::new(name, domain, Class::Write, shape)
    }

    /// An operation that destroys; takes `confirm` and `confirmation_token`.
    pub const fn destructive(name: &'static str, domain: Domain, shape: Shape) -> Self {
        Self::new(name, domain, Class::Destructive, shape)
    }

    /// An operation whose class depends on the input; takes `confirm` and `confirmation_token`.
    pub const fn by_input(name: &'static str, domain: Domain, shape: Shape) -> Self {
        let mut op = Self::new(name, domain, Class::ByInput, shape);
        op.confirms = true;
        op
    }

    /// Belongs to these personas.
    #[must_use]
    pub const fn personas(mut self, personas: &'static [Persona]) -> Self {
        self.personas = personas;
        self
    }

    /// Is not offered by a hosted server (it reads local files or process-wide secrets).
    #[must_use]
    pub const fn local_only(mut self) -> Self {
        self.remote = false;
        self
    }

    /// Repeating it changes nothing more.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Reaches systems beyond Pipefy.
    #[must_use]
    pub const fn open_world(mut self) -> Self {
        self.open_world = true;
        self
    }

    /// May write a file of this machine.
    #[must_use]
    pub const fn saves(mut self) -> Self {
        self.saves = true;
        self
    }

    /// May ask the caller to fill in a form.
    #[must_use]
    pub const fn asks(mut self) -> Self {
        self.asks = true;
        self
    }

    /// Takes `debug`.
    #[must_use]
    pub const fn debug(mut self) -> Self {
        self.debug = true;
        self
    }

    /// Its arguments name these ids.
    #[must_use]
    pub const fn touches(mut self, ids: &'static [IdArg]) -> Self {
        self.touches = ids;
        self
    }

    /// Reaches this beyond what its id arguments name.
    #[must_use]
    pub const fn reaches(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// `tools/list` carries no output schema for it.
    #[must_use]
    pub const fn no_output_schema(mut self) -> Self {
        self.output_schema = false;
        self
    }

    /// Its results hold text of outsiders.
    #[must_use]
    pub const fn outsiders(mut self, outsiders: Outsiders) -> Self {
        self.outsiders = outsiders;
        self
    }

    /// Lists page by page.
    #[must_use]
    pub const fn paging(mut self, items: &'static str, page_info: &'static str, page_size: i64) -> Self {
        self.paging = Some(Paging { items, page_info, page_size });
        self
    }

    /// `fields` narrows this document below `item`.
    #[must_use]
    pub const fn selects(mut self, document: &'static QueryDocument, item: &'static str) -> Self {
        self.selects = Some(Selects { document, item, listed: true });
        self
    }

    /// As [`Self::selects`], for results that are seldom large: the schema does not list `fields`.
    #[must_use]
    pub const fn narrows(mut self, document: &'static QueryDocument, item: &'static str) -> Self {
        self.selects = Some(Selects { document, item, listed: false });
        self
    }
}

impl IdArg {
    /// An argument of this kind.
    pub const fn new(arg: &'static str, kind: IdKind) -> Self {
        Self { arg, kind, within: false }
    }

    /// An argument of this kind that Pipefy looks up inside of what the call's other ids name.
    pub const fn within(arg: &'static str, kind: IdKind) -> Self {
        Self { arg, kind, within: true }
    }
}
