// SPDX-License-Identifier: Apache-2.0
//! The operations on entities.

use oxbus_store::Wait;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderName, IF_MATCH};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Response, StatusCode};
use oxbus_broker::Namespace;
use oxbus_broker::entity::Entity;
use oxbus_broker::namespace::EntityOption;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::ATOM_BODY_BYTES_MAX;
use oxbus_model::rules::RuleSettings;
use oxbus_model::{EntityKind, Result as ModelResult, Timestamp};

use super::entry::{self, AtomEntry, Feed, RequestHost};
use super::options::{self, DescriptionKind};
use super::page::Page;
use super::xml::{Element, XmlWriter};
use super::{description, rules};
use crate::blocking::{run_blocking, run_change};
use crate::front::{Context, PeerInfo};
use crate::http::error::{Area, HttpError};
use crate::http::query::QueryString;
use crate::http::route::AtomResource;
use crate::http::{HttpResponse, access, api_version, body, query};
use crate::sas::{Claims, DenialReason};

/// Headers with tokens for the destinations of forwarding.
const FORWARD_TOKENS: [HeaderName; 2] = [
    HeaderName::from_static("servicebussupplementaryauthorization"),
    HeaderName::from_static("servicebusdlqsupplementaryauthorization"),
];

impl AtomResource {
    /// The path at which the caller needs the right to manage: the whole path, because some clients create a token for
    /// each request.
    fn path(&self) -> String {
        match self {
            Self::Namespace => "$namespaceinfo".to_owned(),
            Self::Queues => "$Resources/Queues".to_owned(),
            Self::Topics => "$Resources/Topics".to_owned(),
            Self::Entity(path) => path.clone(),
            Self::Subscriptions(topic) => format!("{topic}/Subscriptions"),
            Self::Subscription(topic, name) => format!("{topic}/Subscriptions/{name}"),
            Self::Rules(topic, name) => format!("{topic}/Subscriptions/{name}/Rules"),
            Self::Rule(topic, name, rule) => format!("{topic}/Subscriptions/{name}/Rules/{rule}"),
        }
    }

    /// The entity that the API version must support.
    fn entity(&self) -> Option<&str> {
        match self {
            Self::Namespace | Self::Queues | Self::Topics => None,
            Self::Entity(path)
            | Self::Subscriptions(path)
            | Self::Subscription(path, _)
            | Self::Rules(path, _)
            | Self::Rule(path, ..) => Some(path),
        }
    }
}

/// Executes a request.
pub(in crate::http) async fn handle(
    context: &Context,
    peer: PeerInfo,
    request: &Parts,
    body: &mut Incoming,
    resource: AtomResource,
) -> Result<HttpResponse, HttpError> {
    let claims = access::check(context, &request.headers, AccessRight::Manage, &resource.path()).await?;
    let parameters = query::parse(&request.uri);
    let version = api_version::check(context.namespace(), &parameters, resource.entity())?;
    let host = RequestHost::of(context, peer, &request.headers);
    let path = resource.path();
    let response = match request.method {
        Method::GET => get(context, resource, host, parameters).await,
        Method::DELETE => delete(context, resource).await,
        Method::PUT => {
            let is_update = request.headers.contains_key(IF_MATCH);
            let tokens = FORWARD_TOKENS.map(|name| {
                let value = request.headers.get(name)?;
                value.to_str().ok().map(str::to_owned)
            });
            let bytes = body::read(body, ATOM_BODY_BYTES_MAX, context.bodies(), Area::Entities).await?;
            let root = Element::parse(&bytes)?;
            let put_request = PutRequest::read(context, resource, description_in(&root)?, is_update)?;
            if put_request.is_partitioned() {
                version.check_partitioned()?;
            }
            check_destinations(context, &claims, &put_request, tokens).await?;
            put(context, put_request, is_update, host).await
        }
        _ => {
            let detail = "read entities with GET, create and update them with PUT, delete them with DELETE";
            Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, 40500, detail))
        }
    };
    response.inspect_err(|error| error.log_missing_entity(&path, &claims.key_name))
}

impl RequestHost {
    fn of(context: &Context, peer: PeerInfo, headers: &HeaderMap) -> Self {
        let scheme = if peer.is_encrypted { "https" } else { "http" };
        let host = headers
            .get(HOST)
            .and_then(|host| host.to_str().ok())
            .unwrap_or("localhost");
        Self {
            base_url: format!("{scheme}://{host}"),
            authority: host.to_owned(),
            namespace: description::name(context.namespace()),
        }
    }
}

/// The description in an entry, or one without an entry around it.
pub(super) fn description_in(root: &Element) -> Result<&Element, HttpError> {
    if root.name != "entry" {
        return Ok(root);
    }
    let content = root.child("content");
    content
        .and_then(|content| content.children.first())
        .ok_or_else(|| HttpError::bad_request("the entry has no content; put the description there"))
}

/// The resource that a PUT creates or updates.
enum PutRequest {
    Queue(String, Vec<EntityOption>),
    Topic(String, Vec<EntityOption>),
    Subscription(String, String, Vec<EntityOption>, Option<RuleSettings>),
    Rule(String, String, RuleSettings),
}

impl PutRequest {
    fn read(context: &Context, resource: AtomResource, element: &Element, is_update: bool) -> Result<Self, HttpError> {
        let now = context.namespace().clock().now();
        let entity_options = |kind| options::entity_options(kind, element, is_update);
        match (resource, DescriptionKind::of(element)) {
            (AtomResource::Entity(path), Some(DescriptionKind::Queue)) => {
                Ok(Self::Queue(path, entity_options(DescriptionKind::Queue)?))
            }
            (AtomResource::Entity(path), Some(DescriptionKind::Topic)) => {
                Ok(Self::Topic(path, entity_options(DescriptionKind::Topic)?))
            }
            (AtomResource::Subscription(topic, name), Some(DescriptionKind::Subscription)) => {
                let rule = element.child("DefaultRuleDescription");
                let rule = rule
                    .map(|rule| rules::read(rule, oxbus_broker::namespace::DEFAULT_RULE, now))
                    .transpose()?;
                Ok(Self::Subscription(
                    topic,
                    name,
                    entity_options(DescriptionKind::Subscription)?,
                    rule,
                ))
            }
            (AtomResource::Rule(topic, subscription, name), None) if element.name == "RuleDescription" => {
                let rule = RuleSettings {
                    name: name.clone(),
                    ..rules::read(element, &name, now)?
                };
                Ok(Self::Rule(topic, subscription, rule))
            }
            _ => Err(HttpError::bad_request(format!(
                "the description does not match the path; describe the resource of the path: `{}`",
                element.name
            ))),
        }
    }

    fn entity_options(&self) -> &[EntityOption] {
        match self {
            Self::Queue(_, entity_options)
            | Self::Topic(_, entity_options)
            | Self::Subscription(_, _, entity_options, _) => entity_options,
            Self::Rule(..) => &[],
        }
    }

    fn is_partitioned(&self) -> bool {
        self.entity_options().contains(&EntityOption::EnablePartitioning(true))
    }
}

/// Checks that the caller may send to the destinations of forwarding: with the request's token, or with the one in the
/// header for that destination.
async fn check_destinations(
    context: &Context,
    claims: &Claims,
    put_request: &PutRequest,
    tokens: [Option<String>; 2],
) -> Result<(), HttpError> {
    let paths = options::destinations(put_request.entity_options()).map(|path| path.map(str::to_owned));
    for (path, token) in paths.into_iter().zip(tokens) {
        let Some(path) = path else { continue };
        if claims.check(AccessRight::Send, &path, context.now()).is_ok() {
            continue;
        }
        let token = token.ok_or_else(|| claims.denied(DenialReason::MissingRight(AccessRight::Send), &path))?;
        access::authorize(context, &token, AccessRight::Send, &path).await?;
    }
    Ok(())
}

async fn put(
    context: &Context,
    put_request: PutRequest,
    is_update: bool,
    host: RequestHost,
) -> Result<HttpResponse, HttpError> {
    let context = context.clone();
    let status = if is_update { StatusCode::OK } else { StatusCode::CREATED };
    let done = run_change(move |wait| {
        let namespace = context.namespace();
        let entry = match (put_request, is_update) {
            (PutRequest::Queue(path, entity_options), false) => {
                namespace.create_queue_with(&path, entity_options, wait)?;
                entity(namespace, &path, &host, wait)?
            }
            (PutRequest::Queue(path, entity_options), true) => {
                namespace.update_with(&namespace.queue(&path)?, entity_options, wait)?;
                entity(namespace, &path, &host, wait)?
            }
            (PutRequest::Topic(path, entity_options), false) => {
                namespace.create_topic_with(&path, entity_options, wait)?;
                entity(namespace, &path, &host, wait)?
            }
            (PutRequest::Topic(path, entity_options), true) => {
                namespace.update_with(&namespace.topic(&path)?, entity_options, wait)?;
                entity(namespace, &path, &host, wait)?
            }
            (PutRequest::Subscription(topic, name, entity_options, rule), false) => {
                let made = namespace.create_subscription_with(&topic, &name, entity_options, rule, wait)?;
                entry_of(&made, &host, wait)?
            }
            (PutRequest::Subscription(topic, name, entity_options, _), true) => {
                let found = namespace.subscription(&topic, &name)?;
                namespace.update_with(&found, entity_options, wait)?;
                entry_of(&found, &host, wait)?
            }
            (PutRequest::Rule(topic, subscription, rule), false) => {
                namespace.create_rule(&topic, &subscription, &rule, wait)?;
                rule_entry(&topic, &subscription, &rule)
            }
            (PutRequest::Rule(topic, subscription, rule), true) => {
                namespace.update_rule(&topic, &subscription, &rule, wait)?;
                rule_entry(
                    &topic,
                    &subscription,
                    &namespace.rule(&topic, &subscription, &rule.name)?,
                )
            }
        };
        Ok(entry::entry_response(status, &entry, &host))
    });
    done.await.map_err(|error| HttpError::of(Area::Entities, &error))
}

/// The entry of a queue or a topic.
fn entity(namespace: &Namespace, path: &str, host: &RequestHost, wait: &Wait<'_>) -> ModelResult<AtomEntry> {
    entry_of(&queue_or_topic(namespace, path)?, host, wait)
}

fn queue_or_topic(namespace: &Namespace, path: &str) -> ModelResult<Arc<Entity>> {
    let queue = namespace.queue(path);
    queue.or_else(|missing| namespace.topic(path).map_err(|_| missing))
}

fn entry_of(entity: &Arc<Entity>, host: &RequestHost, wait: &Wait<'_>) -> ModelResult<AtomEntry> {
    let mut out = XmlWriter::default();
    match entity.kind() {
        EntityKind::Queue => description::queue(entity, &host.authority, &mut out, wait)?,
        EntityKind::Topic => description::topic(entity, &mut out, wait)?,
        EntityKind::Subscription => description::subscription(entity, &host.authority, &mut out, wait)?,
    }
    let (created_at, updated_at, _) = entity.times();
    let (topic, subscription) = entity.name().parts();
    Ok(AtomEntry {
        title: subscription.unwrap_or(topic).to_owned(),
        path: entity.name().as_str().to_owned(),
        created_at,
        updated_at,
        description: out.finish(),
    })
}

fn rule_entry(topic: &str, subscription: &str, rule: &RuleSettings) -> AtomEntry {
    let mut out = XmlWriter::default();
    rules::write(rule, &mut out);
    AtomEntry {
        title: rule.name.clone(),
        path: format!("{topic}/Subscriptions/{subscription}/Rules/{}", rule.name),
        created_at: Timestamp(rule.created_at_ms),
        updated_at: Timestamp(rule.created_at_ms),
        description: out.finish(),
    }
}

async fn get(
    context: &Context,
    resource: AtomResource,
    host: RequestHost,
    parameters: QueryString,
) -> Result<HttpResponse, HttpError> {
    let page = Page::of(&parameters)?;
    let context = context.clone();
    let done = run_blocking(move |wait| {
        let namespace = context.namespace();
        let now = namespace.clock().now();
        let respond = |entry: AtomEntry| Ok(entry::entry_response(StatusCode::OK, &entry, &host));
        let list = |title: &str, path: &str, entries: Vec<AtomEntry>, next| {
            let feed = Feed {
                title,
                path,
                entries,
                page,
                next,
                version: parameters.get("api-version"),
                now,
            };
            Ok(entry::feed_response(&feed, &host))
        };
        let entities = |title: &str, path: &str, found: Vec<Arc<Entity>>| {
            let (found, next) = page.cut(found);
            let entries: ModelResult<_> = found.iter().map(|it| entry_of(it, &host, wait)).collect();
            list(title, path, entries?, next)
        };
        match &resource {
            AtomResource::Namespace => {
                let mut out = XmlWriter::default();
                description::namespace(namespace, &mut out);
                let (created_at, updated_at) = namespace.times();
                respond(AtomEntry {
                    title: description::name(namespace),
                    path: "$namespaceinfo".to_owned(),
                    created_at,
                    updated_at,
                    description: out.finish(),
                })
            }
            AtomResource::Queues => entities("Queues", "$Resources/queues", namespace.list(EntityKind::Queue)?),
            AtomResource::Topics => entities("Topics", "$Resources/topics", namespace.list(EntityKind::Topic)?),
            AtomResource::Entity(path) => respond(entity(namespace, path, &host, wait)?),
            AtomResource::Subscription(topic, name) => {
                respond(entry_of(&namespace.subscription(topic, name)?, &host, wait)?)
            }
            AtomResource::Subscriptions(topic) => {
                let path = format!("{topic}/Subscriptions");
                entities("Subscriptions", &path, namespace.list_subscriptions(topic)?)
            }
            AtomResource::Rule(topic, subscription, name) => respond(rule_entry(
                topic,
                subscription,
                &namespace.rule(topic, subscription, name)?,
            )),
            AtomResource::Rules(topic, subscription) => {
                let path = format!("{topic}/Subscriptions/{subscription}/Rules");
                let (found, next) = page.cut(namespace.list_rules(topic, subscription)?);
                let entries = found.iter().map(|rule| rule_entry(topic, subscription, rule)).collect();
                list("Rules", &path, entries, next)
            }
        }
    });
    done.await.map_err(|error| HttpError::of(Area::Entities, &error))
}

async fn delete(context: &Context, resource: AtomResource) -> Result<HttpResponse, HttpError> {
    let wrong = matches!(
        resource,
        AtomResource::Namespace
            | AtomResource::Queues
            | AtomResource::Topics
            | AtomResource::Subscriptions(_)
            | AtomResource::Rules(..)
    );
    if wrong {
        let detail = "a list cannot be deleted; name one entity";
        return Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, 40500, detail));
    }
    let context = context.clone();
    let done = run_change(move |wait| {
        let namespace = context.namespace();
        match &resource {
            AtomResource::Entity(path) => namespace.delete(&queue_or_topic(namespace, path)?),
            AtomResource::Subscription(topic, name) => namespace.delete(&namespace.subscription(topic, name)?),
            AtomResource::Rule(topic, subscription, name) => namespace.delete_rule(topic, subscription, name, wait),
            _ => Ok(()),
        }
    });
    done.await.map_err(|error| HttpError::of(Area::Entities, &error))?;
    // The status is 200 with an empty body, because clients treat 204 as an error.
    Ok(Response::new(Full::new(Bytes::new())))
}
