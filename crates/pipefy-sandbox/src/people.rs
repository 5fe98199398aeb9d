//! Who can call the sandbox: three people with fixed bearer tokens and one service account.

/// One of the documented people of every sandbox, whatever its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person {
    /// Full name.
    pub name: &'static str,
    /// E-mail address, unique in the organization.
    pub email: &'static str,
    /// Static bearer token. Not a secret: it only opens a sandbox on loopback.
    pub token: &'static str,
    /// What the person may do, in one sentence.
    pub role: &'static str,
}

/// The token that `--sandbox` uses: the administrator's.
pub const DEFAULT_TOKEN: &str = "sandbox-token-admin";

/// Client id of the seeded service account, for `POST /oauth/token`.
pub const SERVICE_ACCOUNT_ID: &str = "sandbox-service-account";

/// Client secret of the seeded service account. Not a secret: it only opens a sandbox on loopback.
pub const SERVICE_ACCOUNT_SECRET: &str = "sandbox-service-secret";

/// E-mail address of the seeded service account.
pub const SERVICE_ACCOUNT_EMAIL: &str = "integrations.bot@pipefy.example";

pub(crate) const ADMIN: Person = Person {
    name: "Ana Souza",
    email: "ana.souza@aurora.example",
    token: DEFAULT_TOKEN,
    role: "Administrator of every organization, pipe and table.",
};

pub(crate) const MEMBER: Person = Person {
    name: "Bruno Lima",
    email: "bruno.lima@aurora.example",
    token: "sandbox-token-member",
    role: "Member of the first organization's purchasing and support pipes and of the suppliers table; sees no other pipe, \
           manages nothing and may not read the metrics of one automation.",
};

pub(crate) const GUEST: Person = Person {
    name: "Carla Dias",
    email: "carla.dias@guest.example",
    token: "sandbox-token-guest",
    role: "Guest: may fill in the purchasing start form (and see the own requests there) and may read, but not change, \
           the support pipe.",
};

/// The documented people: an administrator, a member of some pipes, a guest.
pub fn people() -> [Person; 3] {
    [ADMIN, MEMBER, GUEST]
}
