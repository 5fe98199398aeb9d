//! What the HTTP edge may ask of the runtime without a service loop: one call, and the list of tools as prepared JSON.

use bytes::Bytes;
use http::request::Parts;
use pipefy_tools::Payload;
use rmcp::model::{CacheScope, ProtocolVersion};
use serde_json::Value;

use crate::catalogue::ListForm;
use crate::dispatch::{Invocation, dispatch};
use crate::handler;
use crate::http::{Called, LoneCall};
use crate::runtime::McpRuntime;

impl McpRuntime {
    /// One call that comes alone: the dispatch that the handler uses, with nobody to ask and nobody to report to.
    pub(crate) async fn lone_call(&self, call: LoneCall<'_>) -> Called {
        let invocation = Invocation {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
            request: Some(call.request),
            conversation: None,
            ask: None,
            progress: None,
            cancel: call.cancel,
        };
        let exposure = match self.exposure(Some(call.request)) {
            Ok(exposure) => exposure,
            Err(error) => return Called { text: error.to_string(), is_object: false, is_error: true },
        };
        let reply = dispatch(self, &exposure, invocation).await;
        let text = reply.text();
        let is_object = match &reply.payload {
            Payload::Value(value) => value.is_object(),
            Payload::Data(_) => text.starts_with('{'),
        };
        Called { text, is_object, is_error: reply.is_error }
    }

    /// The result of `tools/list`, as the handler would write it: one text for each form that revisions know.
    pub(crate) fn prepared_list(&self, request: &Parts, version: &ProtocolVersion) -> Option<Bytes> {
        let form = ListForm::of(version);
        let exposure = self.exposure(Some(request)).ok()?;
        let bytes = exposure.prepared(form).get_or_init(|| {
            let mut list = handler::list(&exposure, form != ListForm::Older);
            if form == ListForm::Alone {
                list = list.with_ttl_ms(handler::LIST_TTL_MS).with_cache_scope(CacheScope::Private);
                list.meta = Some(handler::server_info());
            } else {
                // These revisions do not have it.
                list.result_type = None;
            }
            serde_json::to_vec(&list).unwrap_or_else(|_| Value::Null.to_string().into()).into()
        });
        Some(bytes.clone())
    }
}
