// SPDX-License-Identifier: Apache-2.0
//! Purges messages that a filter selects, and resubmits dead letters: an extension of the service's API.
//!
//! `POST /{entity}/$purge?sub-queue=deadletter&before=MS&limit=N` and `POST /{entity}/$resubmit?limit=N`, with the right
//! to manage the entity; `MS` are milliseconds since 1970. The body is empty, or a `RuleDescription` with the filter. The answer is the number of messages.

use http_body_util::Full;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use oxbus_broker::entity::MessageSelector;
use oxbus_broker::filter::SqlFilter;
use oxbus_model::Timestamp;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::ATOM_BODY_BYTES_MAX;
use oxbus_model::name::SubQueue;
use oxbus_model::rules::FilterSettings;
use oxbus_model::{Error, ErrorKind};
use oxbus_store::Wait;

use super::operations::description_in;
use super::rules;
use super::xml::Element;
use crate::blocking::{call_with_timeout, run_suspending};
use crate::front::Context;
use crate::http::error::{Area, HttpError};
use crate::http::query::QueryString;
use crate::http::route::SelectionOperation;
use crate::http::{HttpResponse, access, api_version, body, query};

/// Executes an operation.
pub(in crate::http) async fn handle_selected(
    context: &Context,
    request: &Parts,
    body: &mut Incoming,
    path: String,
    operation: SelectionOperation,
) -> Result<HttpResponse, HttpError> {
    // The whole path, because some clients create a token for each request.
    let whole = match operation {
        SelectionOperation::Purge => format!("{path}/$purge"),
        SelectionOperation::Resubmit => format!("{path}/$resubmit"),
    };
    let claims = access::check(context, &request.headers, AccessRight::Manage, &whole).await?;
    let parameters = query::parse(&request.uri);
    api_version::check(context.namespace(), &parameters, Some(&path))?;
    let bytes = body::read(body, ATOM_BODY_BYTES_MAX, context.bodies(), Area::Entities).await?;
    let selector = MessageSelector {
        filter: filter(&bytes)?,
        before: number(&parameters, "before")?.map(Timestamp),
        limit: number(&parameters, "limit")?.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
    };
    let sub_queue = sub_queue(&parameters)?;
    let namespace = context.namespace().clone();
    let named = path.clone();
    let done = run_suspending(call_with_timeout(async move |wait: &Wait<'_>| {
        let entity = namespace.entity(&path)?;
        match operation {
            SelectionOperation::Purge => entity.purge_async(sub_queue, &selector, wait).await,
            SelectionOperation::Resubmit => entity.resubmit_async(&selector, wait).await,
        }
    }));
    let count = done.await.map_err(|error| HttpError::of(Area::Entities, &error));
    let count = count.inspect_err(|error| error.log_missing_entity(&named, &claims.key_name))?;
    Ok(Response::new(Full::new(Bytes::from(count.to_string()))))
}

/// The filter of the body. An empty one selects all.
fn filter(bytes: &[u8]) -> Result<Option<SqlFilter>, HttpError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let root = Element::parse(bytes)?;
    match rules::read(description_in(&root)?, "selection", Timestamp(0))?.filter {
        FilterSettings::True => Ok(None),
        FilterSettings::Sql { expression, parameters } => {
            let invalid = |detail: &str| HttpError::of(Area::Entities, &Error::new(ErrorKind::InvalidRule, detail));
            let parsed = SqlFilter::parse(&expression, &parameters);
            parsed.map(Some).map_err(|error| invalid(error.detail()))
        }
        FilterSettings::False | FilterSettings::Correlation(_) => Err(HttpError::bad_request(
            "messages are selected by a SqlFilter or a TrueFilter",
        )),
    }
}

fn number(parameters: &QueryString, name: &str) -> Result<Option<u64>, HttpError> {
    let parsed = parameters.get(name).map(str::parse);
    parsed
        .transpose()
        .map_err(|_| HttpError::bad_request(format!("`{name}` must be a number, 0 or more")))
}

fn sub_queue(parameters: &QueryString) -> Result<SubQueue, HttpError> {
    match parameters.get("sub-queue") {
        None | Some("") => Ok(SubQueue::Main),
        Some("deadletter") => Ok(SubQueue::DeadLetter),
        Some(_) => Err(HttpError::bad_request("`sub-queue` must be deadletter, or left out")),
    }
}
