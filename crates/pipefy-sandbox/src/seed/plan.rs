//! What a fresh organization consists of.

pub(super) struct FieldPlan {
    pub(super) label: &'static str,
    pub(super) kind: &'static str,
    pub(super) required: bool,
    pub(super) options: &'static [&'static str],
    pub(super) help: &'static str,
    /// Name of the connected table or pipe.
    pub(super) connects: &'static str,
}

const fn f(label: &'static str, kind: &'static str) -> FieldPlan {
    FieldPlan { label, kind, required: false, options: &[], help: "", connects: "" }
}

impl FieldPlan {
    const fn needed(mut self) -> Self {
        self.required = true;
        self
    }

    const fn of(mut self, options: &'static [&'static str]) -> Self {
        self.options = options;
        self
    }

    const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    const fn to(mut self, repo: &'static str) -> Self {
        self.connects = repo;
        self
    }
}

pub(super) struct PhasePlan {
    pub(super) name: &'static str,
    pub(super) done: bool,
    /// Hours until a card counts as late; 0 = never.
    pub(super) late_after: i64,
    pub(super) fields: &'static [FieldPlan],
    /// Names of the phases to which cards may move; empty = all others.
    pub(super) moves: &'static [&'static str],
}

const fn phase(name: &'static str, late_after: i64, fields: &'static [FieldPlan]) -> PhasePlan {
    PhasePlan { name, done: false, late_after, fields, moves: &[] }
}

const fn done(name: &'static str) -> PhasePlan {
    PhasePlan { name, done: true, late_after: 0, fields: &[], moves: &[] }
}

impl PhasePlan {
    const fn to(mut self, moves: &'static [&'static str]) -> Self {
        self.moves = moves;
        self
    }
}

pub(super) struct PipePlan {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) icon: &'static str,
    pub(super) color: &'static str,
    /// The first field is the title.
    pub(super) form: &'static [FieldPlan],
    pub(super) phases: &'static [PhasePlan],
    pub(super) labels: &'static [(&'static str, &'static str)],
    pub(super) cards: usize,
    pub(super) titles: &'static [&'static str],
}

pub(super) struct TablePlan {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) fields: &'static [FieldPlan],
    pub(super) titles: &'static [&'static str],
}

pub(super) const TABLES: [TablePlan; 3] = [
    TablePlan {
        name: "Fornecedores",
        description: "Approved suppliers with their contacts",
        fields: &[
            f("Nome", "short_text").needed(),
            f("CNPJ", "cnpj"),
            f("E-mail", "email"),
            f("Telefone", "phone"),
            f("Categoria", "select").of(&["Hardware", "Software", "Escritório", "Serviços"]),
            f("Rating", "number"),
            f("Contract until", "date"),
        ],
        titles: &[
            "Papelaria Três Irmãos",
            "TechNova Informática",
            "Móveis São Bento",
            "CloudSul Hospedagem",
            "Limpeza Já",
            "Gráfica Ipê",
            "Café do Sítio",
            "Segurança Total",
            "Elétrica União",
            "Transportes Andorinha",
            "Uniformes Araçá",
            "Seguros Atlântico",
        ],
    },
    TablePlan {
        name: "Customers",
        description: "Companies that buy from us",
        fields: &[
            f("Company", "short_text").needed(),
            f("Segment", "select").of(&["Retail", "Industry", "Health", "Education", "Public sector"]),
            f("Contact e-mail", "email"),
            f("Annual revenue", "currency"),
            f("Customer since", "date"),
        ],
        titles: &[
            "Mercado Bom Preço",
            "Hospital Santa Clara",
            "Colégio Horizonte",
            "Metalúrgica Aço Forte",
            "Blue Harbor Logistics",
            "Green Valley Foods",
            "Construtora Alvorada",
            "Farmácias Vida",
            "Northwind Textiles",
            "Prefeitura de Vila Nova",
            "Padaria Pão Dourado",
            "Riverside Clinics",
            "Editora Palavra",
            "Auto Peças Silva",
            "Sunrise Hotels",
        ],
    },
    TablePlan {
        name: "Departments",
        description: "Cost centers and who answers for them",
        fields: &[
            f("Department", "short_text").needed(),
            f("Cost center", "short_text"),
            f("Manager", "assignee_select"),
            f("Budget", "currency"),
        ],
        titles: &["Finance", "Human Resources", "Engineering", "Customer Success", "Marketing", "Logística"],
    },
];

pub(super) const PIPES: [PipePlan; 4] = [
    PipePlan {
        name: "Purchase Requests",
        description: "From the request to the delivery of what the company buys",
        icon: "cart",
        color: "blue",
        form: &[
            f("What do you need?", "short_text").needed(),
            f("Justification", "long_text"),
            f("Quantity", "number").needed(),
            f("Estimated cost", "currency").needed().help("In BRL, with taxes"),
            f("Department", "connector").to("Departments"),
            f("Urgency", "radio_horizontal").of(&["Low", "Normal", "High"]).needed(),
            f("Needed until", "due_date"),
            f("Requester e-mail", "email"),
            f("How buying works", "statement"),
        ],
        phases: &[
            phase(
                "Triage",
                48,
                &[f("Category", "select").of(&["Hardware", "Software", "Office", "Services"]).needed()],
            )
            .to(&["Approval", "Rejected"]),
            phase(
                "Approval",
                72,
                &[
                    f("Approver", "assignee_select").needed(),
                    f("Decision", "radio_vertical").of(&["Approved", "Needs information"]),
                    f("Reason for the urgency", "long_text"),
                    f("Approval date", "date"),
                ],
            )
            .to(&["Triage", "Quotation", "Rejected"]),
            phase(
                "Quotation",
                120,
                &[
                    f("Supplier", "connector").to("Fornecedores").needed(),
                    f("Quotes", "attachment"),
                    f("Agreed price", "currency").needed(),
                    f("Supplier CNPJ", "cnpj"),
                ],
            )
            .to(&["Approval", "Order"]),
            phase("Order", 240, &[f("Order number", "short_text").needed(), f("Expected delivery", "datetime")])
                .to(&["Quotation", "Delivered"]),
            done("Delivered").to(&["Order"]),
            done("Rejected").to(&["Triage"]),
        ],
        labels: &[("Urgent", "#FF4A4A"), ("IT", "#2E90FA"), ("Orçamento", "#F79009"), ("Recurring", "#12B76A")],
        cards: 86,
        titles: &[
            "Notebook Dell Latitude",
            "Cadeiras ergonômicas",
            "Monitor 27 polegadas",
            "Licenças de antivírus",
            "Papel A4",
            "Café e açúcar",
            "Headset com microfone",
            "Serviço de limpeza",
            "Impressora multifuncional",
            "Mesa de reunião",
            "Figma licenses",
            "Projetor para a sala 3",
            "Uniformes da logística",
            "Ar condicionado",
            "Crachás",
        ],
    },
    PipePlan {
        name: "Employee Onboarding",
        description: "Everything a new colleague needs before the first day",
        icon: "hiring",
        color: "green",
        form: &[
            f("Full name", "short_text").needed(),
            f("CPF", "cpf"),
            f("Personal e-mail", "email").needed(),
            f("Mobile phone", "phone"),
            f("Start date", "date").needed(),
            f("Position", "select").of(&["Analyst", "Engineer", "Manager", "Intern"]),
            f("Department", "connector").to("Departments"),
        ],
        phases: &[
            phase(
                "Documents",
                96,
                &[
                    f("Received documents", "checklist_vertical").of(&[
                        "Identity",
                        "Proof of residence",
                        "Diploma",
                        "Bank account",
                    ]),
                    f("Scanned files", "attachment"),
                    f("Employee number", "id"),
                ],
            ),
            phase(
                "Equipment",
                72,
                &[f("Equipment", "checklist_horizontal").of(&["Notebook", "Phone", "Badge"]), f("Desk", "short_text")],
            ),
            phase(
                "First week",
                168,
                &[f("Buddy", "assignee_select"), f("Welcome call", "time"), f("Welcome text", "dynamic_content")],
            ),
            done("Onboarded"),
        ],
        labels: &[("Remote", "#7A5AF8"), ("Estágio", "#06AED4"), ("Leadership", "#DD2590")],
        cards: 58,
        titles: &[
            "Mariana Alves",
            "João Pedro Santos",
            "Luíza Ferreira",
            "Rafael Gonçalves",
            "Beatriz Moura",
            "Thiago Araújo",
            "Helena Castro",
            "Lucas Ribeiro",
            "Sofia Nunes",
            "Gabriel Conceição",
            "Emily Carter",
            "Daniel Brown",
        ],
    },
    PipePlan {
        name: "Customer Support",
        description: "Questions and problems of customers",
        icon: "support",
        color: "purple",
        form: &[
            f("Subject", "short_text").needed(),
            f("Description", "long_text").needed(),
            f("Customer", "connector").to("Customers"),
            f("Channel", "select").of(&["E-mail", "Chat", "Telefone", "Portal"]).needed(),
            f("Reported at", "datetime"),
            f("Screenshots", "attachment"),
        ],
        phases: &[
            phase(
                "New",
                4,
                &[f("Priority", "radio_horizontal").of(&["P1", "P2", "P3"]).needed(), f("Tags", "label_select")],
            ),
            phase("In analysis", 24, &[f("Agent", "assignee_select"), f("Root cause", "long_text")]),
            phase("Waiting for customer", 120, &[f("Follow-up on", "date")]),
            phase(
                "Solution review",
                24,
                &[f("Solution", "long_text").needed(), f("Purchase", "connector").to("Purchase Requests")],
            ),
            done("Solved"),
        ],
        labels: &[("Bug", "#F04438"), ("Question", "#2E90FA"), ("Faturamento", "#F79009"), ("VIP", "#7A5AF8")],
        cards: 94,
        titles: &[
            "Cannot log in",
            "Invoice shows the wrong amount",
            "Relatório não abre",
            "Export takes too long",
            "How do I add a user?",
            "Erro ao anexar arquivo",
            "Entrega atrasada",
            "Password reset e-mail missing",
            "Integração parou de funcionar",
            "Mobile app crashes",
            "Troca de titularidade",
            "Dashboard is empty",
        ],
    },
    PipePlan {
        name: "Vendas B2B - São Paulo",
        description: "Negócios com empresas, do contato ao contrato",
        icon: "money",
        color: "orange",
        form: &[
            f("Negócio", "short_text").needed(),
            f("Cliente", "connector").to("Customers"),
            f("Valor estimado", "currency").needed(),
            f("Contato", "email"),
            f("Telefone", "phone"),
            f("Fechamento previsto", "due_date"),
        ],
        phases: &[
            phase("Prospecção", 168, &[f("Origem", "select").of(&["Indicação", "Site", "Evento", "Prospecção ativa"])]),
            phase("Qualificação", 120, &[f("Decisor identificado", "radio_horizontal").of(&["Sim", "Não"]).needed()]),
            phase("Proposta", 96, &[f("Proposta", "attachment"), f("Desconto (%)", "number")]),
            phase("Negociação", 240, &[f("Próxima reunião", "datetime"), f("Observações", "long_text")]),
            done("Ganho"),
            done("Perdido"),
        ],
        labels: &[("Quente", "#F04438"), ("Renovação", "#12B76A"), ("Upsell", "#2E90FA")],
        cards: 62,
        titles: &[
            "Implantação ERP",
            "Renovação anual",
            "Pacote de suporte premium",
            "Expansão de licenças",
            "Consultoria de processos",
            "Treinamento da equipe",
            "Migração para a nuvem",
            "Projeto piloto",
            "Automação do financeiro",
        ],
    },
];

/// The pipe of the second organization.
pub(super) const LABS_PIPE: PipePlan = PipePlan {
    name: "Contract Review",
    description: "Legal review of contracts before they are signed",
    icon: "contract",
    color: "gray",
    form: &[
        f("Contract", "short_text").needed(),
        f("Counterparty", "short_text"),
        f("Value", "currency"),
        f("Draft", "attachment"),
    ],
    phases: &[
        phase("Intake", 48, &[]),
        phase("Review", 96, &[f("Reviewer", "assignee_select"), f("Risk", "select").of(&["Low", "Medium", "High"])]),
        done("Signed"),
    ],
    labels: &[("NDA", "#667085"), ("Prioridade", "#F04438")],
    cards: 14,
    titles: &["NDA", "Prestação de serviços", "Software licence", "Lease of the lab", "Parceria de pesquisa"],
};

pub(super) const COLLEAGUES: [(&str, &str); 6] = [
    ("Diego Martins", "diego.martins@aurora.example"),
    ("Fernanda Rocha", "fernanda.rocha@aurora.example"),
    ("Íris Carvalho", "iris.carvalho@aurora.example"),
    ("Marcos Antônio Pinto", "marcos.pinto@aurora.example"),
    ("Priya Nair", "priya.nair@aurora.example"),
    ("Tom Becker", "tom.becker@aurora.example"),
];

pub(super) const COMMENTS: [&str; 8] = [
    "Please check the numbers again before we go on.",
    "Falei com o fornecedor, a resposta chega até sexta.",
    "Done on my side.",
    "Can somebody from finance confirm?",
    "Anexei a versão corrigida.",
    "The customer called and asks for an update.",
    "Aprovado pela diretoria.",
    "Waiting for the signature.",
];

pub(super) const SENTENCES: [&str; 8] = [
    "The current one no longer works and repairs cost more than a replacement.",
    "Precisamos disto antes do fim do mês para não parar a operação.",
    "It happens every morning between 8 and 9, for all users of the branch.",
    "O cliente pediu prioridade e aceita uma entrega parcial.",
    "Planned in the budget of this quarter.",
    "Steps: open the report, choose \"Last month\", press Export.",
    "A equipe cresceu e faltam lugares na sala.",
    "See the attached file for details.",
];
