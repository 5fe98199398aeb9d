//! Words of the three languages that mean the same here, read as one term. Also what users call things that the tool names
//! call otherwise: a ticket is a card, a process is a pipe.

use std::collections::HashMap;

use super::words::{stem, words};

/// A term, and the words and phrases that stand for it, separated by commas. Written without accents.
const TERMS: &[(&str, &str)] = &[
    // Things
    (
        "card",
        "card, ticket, case, deal, request, demand, cartao, tarjeta, chamado, solicitacao, solicitud, pedido, demanda, caso",
    ),
    ("pipe", "pipe, process, workflow, board, kanban, processo, proceso, fluxo, flujo, tablero, quadro"),
    ("phase", "phase, stage, step, column of pipe, fase, etapa"),
    (
        "field",
        "field, question, dropdown, checkbox, campo, pergunta, pregunta, lista suspensa, lista desplegable, casilla",
    ),
    ("form", "form, formulario"),
    (
        "start_form",
        "start form, initial form, intake form, request form, formulario inicial, formulario inicio, formulario entrada, formulario abertura",
    ),
    ("table", "table, database, tabela, tabla, banco dados, base datos, base dados, data base"),
    ("record", "record, row, entry, registro, linha, fila, entrada"),
    (
        "member",
        "member, user, people, person, teammate, colleague, employee, guest, membro, miembro, usuario, pessoa, persona, colaborador, funcionario, empleado, convidado, invitado, gente",
    ),
    (
        "role",
        "role, permission, permissions, papel, permissao, rol, permiso, admin, administrator, administrador, viewer, visualizador",
    ),
    ("access", "access, acesso, acceso, acessar, acceder"),
    ("comment", "comment, note, remark, comentario, comentar, nota, observacao, observacion"),
    ("label", "label, tag, etiqueta, marcador, rotulo"),
    ("email", "email, e mail, mail, correo, correo electronico, correio, correio eletronico"),
    ("template", "template, modelo, plantilla"),
    (
        "inbox",
        "inbox, received, incoming, recebido, recebidos, recibido, recibidos, caixa entrada, bandeja entrada, bandeja",
    ),
    ("webhook", "webhook, callback, notification url, web hook"),
    (
        "automation",
        "automation, automate, rule, trigger, automacao, automatizacion, automatizar, regra, regla, gatilho, disparador",
    ),
    ("agent", "agent, bot, assistant, chatbot, copilot, agente, robo, robot, assistente, asistente"),
    ("ai", "ai, ia, artificial intelligence, inteligencia artificial"),
    ("knowledge", "knowledge, conhecimento, conocimiento, base conhecimento, base conocimiento, knowledge base"),
    (
        "llm",
        "llm, language model, modelo linguagem, modelo lenguaje, gpt, openai, claude, gemini, anthropic, ai model, modelo ia",
    ),
    ("report", "report, dashboard, relatorio, informe, reporte, painel, panel"),
    ("column", "column, coluna, columna"),
    ("portal", "portal"),
    ("sub_portal", "sub portal, subportal"),
    ("page", "page, pagina"),
    ("element", "element, block, widget, button, elemento, bloco, bloque, botao, boton"),
    ("interface", "interface, screen, tela, pantalla, ui"),
    ("layout", "layout, disposicao, disposicion, arrangement"),
    (
        "relation",
        "relation, relationship, link, linked, connect, connected, connection, parent, child, children, relacao, relacion, relacionar, relacionado, vincular, vinculo, vinculado, vinculada, conectar, conectado, conexao, conexion, enlazar, enlace, pai, filho, padre, hijo",
    ),
    (
        "attachment",
        "attachment, attach, file, upload, anexo, anexar, arquivo, archivo, adjunto, adjuntar, subir, pdf, image, imagem, imagen, foto, photo",
    ),
    ("organization", "organization, organisation, company, workspace, organizacao, organizacion, empresa"),
    (
        "service_account",
        "service account, technical user, machine user, robot account, conta servico, cuenta servicio, usuario tecnico, usuario integracao, usuario integracion, api user",
    ),
    (
        "condition",
        "condition, conditional, conditionally, condicao, condicion, condicional, unless, depending, depends, depende, dependendo, dependiendo",
    ),
    ("credit", "credit, balance, credito, saldo"),
    ("usage", "usage, consumption, consumed, spent, uso, consumo, gasto, used, usado, consumir"),
    (
        "log",
        "log, history, happened, why, failed, failure, error, historico, historial, aconteceu, paso, falhou, falha, fallo, erro, porque, registro execucao",
    ),
    ("audit", "audit, auditing, compliance, auditoria, auditar"),
    ("metric", "metric, statistic, performance, metrica, estatistica, estadistica, desempenho, rendimiento"),
    (
        "count",
        "count, many, number, total, quantos, quantas, quanto, cuantos, cuantas, cuanto, contar, quantidade, cantidad",
    ),
    ("job", "job, run, execution, execucao, ejecucion, executada, ejecutaron, ejecutada, execucoes, rodou"),
    ("event", "event, evento"),
    ("action", "action, acao, accion"),
    ("task", "task, todo, tarefa, tarea"),
    ("behavior", "behavior, behaviour, skill, comportamento, comportamiento, habilidade, habilidad"),
    ("prompt", "prompt, instruction, instrucao, instruccion"),
    ("document", "document, manual, handbook, documento, pdf"),
    ("query", "query, consulta"),
    ("mutation", "mutation, mutacao, mutacion"),
    ("graphql", "graphql, graph ql, gql"),
    ("schema", "schema, esquema, api"),
    ("type", "type, tipo"),
    (
        "integration",
        "integration, integrate, integracao, integracion, integrar, app, third party, external system, sistema externo",
    ),
    ("value", "value, valor"),
    ("status", "status, state, estado, situacao, situacion"),
    (
        "due",
        "due, deadline, due date, vencimento, vencimiento, prazo, plazo, overdue, late, vencido, vencida, atrasado, atrasada",
    ),
    ("assignee", "assignee, responsible, assign, owner, responsavel, responsable, atribuir, asignar"),
    ("title", "title, name, titulo, nome, nombre"),
    ("default", "default, padrao, defecto, predeterminado, predeterminada"),
    ("month", "month, monthly, mes, mensal, mensual"),
    ("customer", "customer, client, cliente"),
    ("supplier", "supplier, vendor, fornecedor, proveedor"),
    // What is done
    (
        "create",
        "create, add, new, make, open, register, start, build, set up, insert, criar, crie, crear, cree, adicionar, agregar, anadir, abrir, abrirem, cadastrar, registrar, incluir, inserir, montar, fazer, hacer, nuevo, nueva",
    ),
    (
        "delete",
        "delete, remove, erase, destroy, drop, discard, trash, apagar, apague, excluir, exclua, remover, deletar, borrar, borre, eliminar, quitar",
    ),
    (
        "update",
        "update, change, edit, modify, rename, correct, fix, adjust, alter, replace, alterar, mudar, mude, editar, renomear, atualizar, trocar, corrigir, ajustar, modificar, cambiar, cambie, corregir, actualizar, renombrar",
    ),
    (
        "get",
        "get, show, see, view, list, display, read, which, what, look, check, tell, ver, veja, mostrar, mostre, muestra, muestre, listar, liste, exibir, quais, qual, cual, cuales, leer, ler, consultar, trazer",
    ),
    (
        "find",
        "find, search, locate, lookup, filter, buscar, busque, procurar, procure, encontrar, encontre, encuentra, pesquisar, localizar, filtrar",
    ),
    (
        "move",
        "move, advance, transition, push forward, mover, mova, mueve, mueva, passar, pasar, avancar, avanzar, levar, llevar",
    ),
    (
        "send",
        "send, reply, answer, respond, deliver, forward, mandar, mande, enviar, envie, responder, respuesta, resposta, encaminhar, reenviar",
    ),
    ("clone", "clone, copy, duplicate, copiar, duplicar, duplicado, duplicada, clonar, copia"),
    (
        "export",
        "export, download, spreadsheet, excel, xlsx, csv, exportar, baixar, descargar, planilha, planilla, hoja calculo",
    ),
    ("invite", "invite, invitation, convidar, convide, convite, invitar, invite"),
    (
        "toggle",
        "toggle, turn off, turn on, switch off, switch on, enable, disable, activate, deactivate, pause, resume, stop, ativar, desativar, activar, desactivar, desligar, ligar, encender, pausar, parar, suspender, habilitar, desabilitar, deshabilitar",
    ),
    ("publish", "publish, go live, publicar, publique"),
    ("unpublish", "unpublish, take offline, take down, despublicar, tirar ar"),
    ("sort", "sort, order, reorder, rearrange, ordenar, reordenar, ordem, orden"),
    ("simulate", "simulate, test, testing, try, rehearse, simular, testar, teste, probar, prueba, ensayar"),
    ("validate", "validate, verify, valid, validar, verificar, comprobar, conferir, checar"),
    ("fill", "fill, fill in, complete, preencher, preencha, rellenar, rellene, llenar, completar"),
    ("execute", "execute, call, perform, executar, ejecutar, chamar, llamar, rodar"),
    ("notify", "notify, alert, inform, ping, tell our, avisar, avise, notificar, alertar"),
    ("reset", "reset, restore, revert, undo, redefinir, restaurar, restablecer, reverter, voltar"),
    ("hide", "hide, hidden, esconder, ocultar, oculte, show only, mostrar somente, mostrar solo"),
    ("grant", "grant, give, allow, dar, conceder, permitir"),
    ("teach", "teach, train, ensinar, treinar, ensenar, entrenar, learn"),
    ("allow", "allowed, permitted, possible, permitido, posible, possivel"),
];

/// The terms by the stems of their words.
#[derive(Debug)]
pub(super) struct Lexicon {
    single: HashMap<String, Vec<&'static str>>,
    /// Phrases by their first stem; the longest first.
    phrases: HashMap<String, Vec<(Vec<String>, &'static str)>>,
}

impl Lexicon {
    pub(super) fn new() -> Self {
        let mut single: HashMap<String, Vec<&'static str>> = HashMap::new();
        let mut phrases: HashMap<String, Vec<(Vec<String>, &'static str)>> = HashMap::new();
        for (term, list) in TERMS {
            for entry in list.split(',') {
                let stems: Vec<String> = words(entry).iter().map(|word| stem(word)).collect();
                match stems.as_slice() {
                    [] => {}
                    [one] => {
                        let terms = single.entry(one.clone()).or_default();
                        if !terms.contains(term) {
                            terms.push(term);
                        }
                    }
                    [first, ..] => phrases.entry(first.clone()).or_default().push((stems.clone(), term)),
                }
            }
        }
        for list in phrases.values_mut() {
            list.sort_by_key(|(stems, _)| std::cmp::Reverse(stems.len()));
        }
        Self { single, phrases }
    }

    /// The terms of a text, word by word: those that a word or phrase stands for, or its stem when it stands for none.
    pub(super) fn terms(&self, text: &str) -> Vec<Vec<String>> {
        let stems: Vec<String> = words(text).iter().map(|word| stem(word)).collect();
        let mut rest = stems.as_slice();
        let mut out = Vec::new();
        while let Some((first, after)) = rest.split_first() {
            let phrase =
                self.phrases.get(first).and_then(|list| list.iter().find(|(stems, _)| rest.starts_with(stems)));
            if let Some((stems, term)) = phrase {
                out.push(vec![(*term).to_owned()]);
                rest = rest.get(stems.len()..).unwrap_or_default();
                continue;
            }
            out.push(match self.single.get(first) {
                Some(terms) => terms.iter().map(|term| (*term).to_owned()).collect(),
                None => vec![first.clone()],
            });
            rest = after;
        }
        out
    }
}
