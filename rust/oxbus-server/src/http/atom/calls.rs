// SPDX-License-Identifier: Apache-2.0
//! What a request about entities does.

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

use super::entry::{self, Caller, Entry, Feed};
use super::options::{self, Described};
use super::page::Page;
use super::xml::{Element, Out};
use super::{description, rules};
use crate::front::{Context, Peer};
use crate::http::query::Parameters;
use crate::http::refusal::{Area, Refusal};
use crate::http::route::Place;
use crate::http::{Answer, access, api_version, body, query};
use crate::sas::{Claims, Why};
use crate::work::on_thread;

/// Tokens for the entities that an entity is to forward to.
const FORWARD_TOKENS: [HeaderName; 2] = [
    HeaderName::from_static("servicebussupplementaryauthorization"),
    HeaderName::from_static("servicebusdlqsupplementaryauthorization"),
];

impl Place {
    /// Where whoever asks needs the right to manage: the whole path, since some clients make a token for each request.
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

    /// The entity whose partitions the version of a request has to know.
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

/// Does what is asked for.
pub(in crate::http) async fn handle(
    context: &Context,
    peer: Peer,
    request: &Parts,
    body: &mut Incoming,
    place: Place,
) -> Result<Answer, Refusal> {
    let claims = access::check(context, &request.headers, AccessRight::Manage, &place.path()).await?;
    let parameters = query::parse(&request.uri);
    let version = api_version::check(context.namespace(), &parameters, place.entity())?;
    let caller = Caller::of(context, peer, &request.headers);
    let path = place.path();
    let answer = match request.method {
        Method::GET => get(context, place, caller, parameters).await,
        Method::DELETE => delete(context, place).await,
        Method::PUT => {
            let is_update = request.headers.contains_key(IF_MATCH);
            let tokens = FORWARD_TOKENS.map(|name| {
                let value = request.headers.get(name)?;
                value.to_str().ok().map(str::to_owned)
            });
            let bytes = body::read(body, ATOM_BODY_BYTES_MAX, context.bodies(), Area::Entities).await?;
            let root = Element::parse(&bytes)?;
            let wanted = Wanted::read(context, place, described(&root)?, is_update)?;
            if wanted.is_partitioned() {
                version.check_partitioned()?;
            }
            check_destinations(context, &claims, &wanted, tokens).await?;
            put(context, wanted, is_update, caller).await
        }
        _ => {
            let detail = "entities are read with GET, made and changed with PUT, deleted with DELETE";
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, 40500, detail))
        }
    };
    answer.inspect_err(|refusal| refusal.log_missing(&path, &claims.key_name))
}

impl Caller {
    fn of(context: &Context, peer: Peer, headers: &HeaderMap) -> Self {
        let scheme = if peer.is_encrypted { "https" } else { "http" };
        let host = headers
            .get(HOST)
            .and_then(|host| host.to_str().ok())
            .unwrap_or("localhost");
        Self {
            base: format!("{scheme}://{host}"),
            host: host.to_owned(),
            namespace: description::name(context.namespace()),
        }
    }
}

/// The description in an entry; one without an entry around it is taken, too.
fn described(root: &Element) -> Result<&Element, Refusal> {
    if root.name != "entry" {
        return Ok(root);
    }
    let content = root.child("content");
    content
        .and_then(|content| content.children.first())
        .ok_or_else(|| Refusal::bad_request("the entry has no content; put the description there"))
}

/// What a PUT is to make of its place.
enum Wanted {
    Queue(String, Vec<EntityOption>),
    Topic(String, Vec<EntityOption>),
    Subscription(String, String, Vec<EntityOption>, Option<RuleSettings>),
    Rule(String, String, RuleSettings),
}

impl Wanted {
    fn read(context: &Context, place: Place, element: &Element, is_update: bool) -> Result<Self, Refusal> {
        let now = context.namespace().clock().now();
        let wishes = |kind| options::wishes(kind, element, is_update);
        match (place, Described::of(element)) {
            (Place::Entity(path), Some(Described::Queue)) => Ok(Self::Queue(path, wishes(Described::Queue)?)),
            (Place::Entity(path), Some(Described::Topic)) => Ok(Self::Topic(path, wishes(Described::Topic)?)),
            (Place::Subscription(topic, name), Some(Described::Subscription)) => {
                let rule = element.child("DefaultRuleDescription");
                let rule = rule
                    .map(|rule| rules::read(rule, oxbus_broker::namespace::DEFAULT_RULE, now))
                    .transpose()?;
                Ok(Self::Subscription(topic, name, wishes(Described::Subscription)?, rule))
            }
            (Place::Rule(topic, subscription, name), None) if element.name == "RuleDescription" => {
                let rule = RuleSettings {
                    name: name.clone(),
                    ..rules::read(element, &name, now)?
                };
                Ok(Self::Rule(topic, subscription, rule))
            }
            _ => Err(Refusal::bad_request(format!(
                "the path and the description do not fit; describe what the path names: `{}`",
                element.name
            ))),
        }
    }

    fn wishes(&self) -> &[EntityOption] {
        match self {
            Self::Queue(_, wishes) | Self::Topic(_, wishes) | Self::Subscription(_, _, wishes, _) => wishes,
            Self::Rule(..) => &[],
        }
    }

    fn is_partitioned(&self) -> bool {
        self.wishes().contains(&EntityOption::EnablePartitioning(true))
    }
}

/// Refuses to forward where the caller may not send: his token must say so, or the one that he sends along for that.
async fn check_destinations(
    context: &Context,
    claims: &Claims,
    wanted: &Wanted,
    tokens: [Option<String>; 2],
) -> Result<(), Refusal> {
    let paths = options::destinations(wanted.wishes()).map(|path| path.map(str::to_owned));
    for (path, token) in paths.into_iter().zip(tokens) {
        let Some(path) = path else { continue };
        if claims.check(AccessRight::Send, &path, context.now()).is_ok() {
            continue;
        }
        let token = token.ok_or_else(|| claims.refused(Why::MissingRight(AccessRight::Send), &path))?;
        access::authorize(context, &token, AccessRight::Send, &path).await?;
    }
    Ok(())
}

async fn put(context: &Context, wanted: Wanted, is_update: bool, caller: Caller) -> Result<Answer, Refusal> {
    let context = context.clone();
    let status = if is_update { StatusCode::OK } else { StatusCode::CREATED };
    let done = on_thread(move |wait| {
        let namespace = context.namespace();
        let shown = match (wanted, is_update) {
            (Wanted::Queue(path, wishes), false) => {
                namespace.create_queue_with(&path, wishes, wait)?;
                entity(namespace, &path, &caller, wait)?
            }
            (Wanted::Queue(path, wishes), true) => {
                namespace.update_with(&namespace.queue(&path)?, wishes, wait)?;
                entity(namespace, &path, &caller, wait)?
            }
            (Wanted::Topic(path, wishes), false) => {
                namespace.create_topic_with(&path, wishes, wait)?;
                entity(namespace, &path, &caller, wait)?
            }
            (Wanted::Topic(path, wishes), true) => {
                namespace.update_with(&namespace.topic(&path)?, wishes, wait)?;
                entity(namespace, &path, &caller, wait)?
            }
            (Wanted::Subscription(topic, name, wishes, rule), false) => {
                let made = namespace.create_subscription_with(&topic, &name, wishes, rule, wait)?;
                entry_of(&made, &caller, wait)
            }
            (Wanted::Subscription(topic, name, wishes, _), true) => {
                let found = namespace.subscription(&topic, &name)?;
                namespace.update_with(&found, wishes, wait)?;
                entry_of(&found, &caller, wait)
            }
            (Wanted::Rule(topic, subscription, rule), false) => {
                namespace.create_rule(&topic, &subscription, &rule, wait)?;
                rule_entry(&topic, &subscription, &rule)
            }
            (Wanted::Rule(topic, subscription, rule), true) => {
                namespace.update_rule(&topic, &subscription, &rule, wait)?;
                rule_entry(
                    &topic,
                    &subscription,
                    &namespace.rule(&topic, &subscription, &rule.name)?,
                )
            }
        };
        Ok(entry::one(status, &shown, &caller))
    });
    done.await.map_err(|error| Refusal::of(Area::Entities, &error))
}

/// A queue or a topic.
fn entity(namespace: &Namespace, path: &str, caller: &Caller, wait: &Wait<'_>) -> ModelResult<Entry> {
    Ok(entry_of(&queue_or_topic(namespace, path)?, caller, wait))
}

fn queue_or_topic(namespace: &Namespace, path: &str) -> ModelResult<Arc<Entity>> {
    let queue = namespace.queue(path);
    queue.or_else(|missing| namespace.topic(path).map_err(|_| missing))
}

fn entry_of(entity: &Arc<Entity>, caller: &Caller, wait: &Wait<'_>) -> Entry {
    let mut out = Out::default();
    match entity.kind() {
        EntityKind::Queue => description::queue(entity, &caller.host, &mut out, wait),
        EntityKind::Topic => description::topic(entity, &mut out, wait),
        EntityKind::Subscription => description::subscription(entity, &caller.host, &mut out, wait),
    }
    let (created_at, updated_at, _) = entity.times();
    let (topic, subscription) = entity.name().parts();
    Entry {
        title: subscription.unwrap_or(topic).to_owned(),
        path: entity.name().as_str().to_owned(),
        created_at,
        updated_at,
        description: out.finish(),
    }
}

fn rule_entry(topic: &str, subscription: &str, rule: &RuleSettings) -> Entry {
    let mut out = Out::default();
    rules::write(rule, &mut out);
    Entry {
        title: rule.name.clone(),
        path: format!("{topic}/Subscriptions/{subscription}/Rules/{}", rule.name),
        created_at: Timestamp(rule.created_at_ms),
        updated_at: Timestamp(rule.created_at_ms),
        description: out.finish(),
    }
}

async fn get(context: &Context, place: Place, caller: Caller, parameters: Parameters) -> Result<Answer, Refusal> {
    let page = Page::of(&parameters)?;
    let context = context.clone();
    let done = on_thread(move |wait| {
        let namespace = context.namespace();
        let now = namespace.clock().now();
        let shown = |entry: Entry| Ok(entry::one(StatusCode::OK, &entry, &caller));
        let list = |title: &str, path: &str, entries: Vec<Entry>, next| {
            let feed = Feed {
                title,
                path,
                entries,
                page,
                next,
                version: parameters.get("api-version"),
                now,
            };
            Ok(entry::many(&feed, &caller))
        };
        let entities = |title: &str, path: &str, found: Vec<Arc<Entity>>| {
            let (found, next) = page.cut(found);
            list(
                title,
                path,
                found.iter().map(|it| entry_of(it, &caller, wait)).collect(),
                next,
            )
        };
        match &place {
            Place::Namespace => {
                let mut out = Out::default();
                description::namespace(namespace, &mut out);
                let (created_at, updated_at) = namespace.times();
                shown(Entry {
                    title: description::name(namespace),
                    path: "$namespaceinfo".to_owned(),
                    created_at,
                    updated_at,
                    description: out.finish(),
                })
            }
            Place::Queues => entities("Queues", "$Resources/queues", namespace.list(EntityKind::Queue)?),
            Place::Topics => entities("Topics", "$Resources/topics", namespace.list(EntityKind::Topic)?),
            Place::Entity(path) => shown(entity(namespace, path, &caller, wait)?),
            Place::Subscription(topic, name) => shown(entry_of(&namespace.subscription(topic, name)?, &caller, wait)),
            Place::Subscriptions(topic) => {
                let path = format!("{topic}/Subscriptions");
                entities("Subscriptions", &path, namespace.list_subscriptions(topic)?)
            }
            Place::Rule(topic, subscription, name) => shown(rule_entry(
                topic,
                subscription,
                &namespace.rule(topic, subscription, name)?,
            )),
            Place::Rules(topic, subscription) => {
                let path = format!("{topic}/Subscriptions/{subscription}/Rules");
                let (found, next) = page.cut(namespace.list_rules(topic, subscription)?);
                let entries = found.iter().map(|rule| rule_entry(topic, subscription, rule)).collect();
                list("Rules", &path, entries, next)
            }
        }
    });
    done.await.map_err(|error| Refusal::of(Area::Entities, &error))
}

async fn delete(context: &Context, place: Place) -> Result<Answer, Refusal> {
    let wrong = matches!(
        place,
        Place::Namespace | Place::Queues | Place::Topics | Place::Subscriptions(_) | Place::Rules(..)
    );
    if wrong {
        let detail = "a list cannot be deleted; name one entity";
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, 40500, detail));
    }
    let context = context.clone();
    let done = on_thread(move |wait| {
        let namespace = context.namespace();
        match &place {
            Place::Entity(path) => namespace.delete(&queue_or_topic(namespace, path)?),
            Place::Subscription(topic, name) => namespace.delete(&namespace.subscription(topic, name)?),
            Place::Rule(topic, subscription, name) => namespace.delete_rule(topic, subscription, name, wait),
            _ => Ok(()),
        }
    });
    done.await.map_err(|error| Refusal::of(Area::Entities, &error))?;
    // An empty body with the status 200: clients take 204 for an error.
    Ok(Response::new(Full::new(Bytes::new())))
}
