// SPDX-License-Identifier: Apache-2.0
//! Index of all correlation filters of a topic by their values.
//!
//! Filters that compare the same fields and properties form a group. A group maps the hash of the expected values to
//! its filters. A message costs one lookup per group, however many filters the group has. Each group is listed under
//! its rarest property, so groups whose rarest property the message lacks are skipped.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

use oxbus_model::message::Value;
use oxbus_model::rules::OwnedValue;
use smallvec::SmallVec;

use super::correlation::{ComparableValue, CorrelationFilter, FIELDS, ValuesHash, fields_of};
use super::property_name;
use super::topic_rules::RuleTarget;
use super::view::MessageView;

/// Number of compared properties of one message that fit without an allocation.
const COMPARED_INLINE: usize = 8;

/// Position of a name in [`CorrelationIndex::names`].
type NameId = u32;

/// Fields and properties that the filters of a group compare.
type Compared = ([bool; FIELDS], Box<[NameId]>);

type ByHash<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;

/// The index.
#[derive(Debug, Default)]
pub(super) struct CorrelationIndex {
    groups: Vec<FilterGroup>,
    /// Groups that compare only fields.
    by_fields: Vec<u32>,
    /// Groups by the rarest property that they compare.
    by_property: Vec<Vec<u32>>,
    names: Vec<String>,
    names_by_hash: ByHash<SmallVec<[NameId; 1]>>,
}

/// Filters that compare the same fields and properties.
#[derive(Debug)]
struct FilterGroup {
    fields: [bool; FIELDS],
    /// The properties in ascending order.
    properties: Box<[NameId]>,
    filters: ByHash<SmallVec<[IndexedFilter; 1]>>,
}

/// A filter and the rules that use it.
#[derive(Debug)]
struct IndexedFilter {
    /// Expected values of the group's fields, in order.
    fields: Box<[Box<str>]>,
    /// Expected values of the group's properties, in order.
    properties: Box<[OwnedValue]>,
    targets: SmallVec<[RuleTarget; 1]>,
}

impl CorrelationIndex {
    /// Builds the index from filters and their rules.
    pub(super) fn of<'r>(filters: impl Iterator<Item = (&'r CorrelationFilter, RuleTarget)>) -> Self {
        let mut index = Self::default();
        let mut groups: HashMap<Compared, u32, BuildHasherDefault<DefaultHasher>> = HashMap::default();
        for (filter, target) in filters {
            let mut properties: Vec<_> = filter
                .properties
                .iter()
                .map(|(name, value)| (index.name_id(name), value))
                .collect();
            properties.sort_by_key(|(name, _)| *name);
            let compared: Compared = (
                filter.fields.each_ref().map(Option::is_some),
                properties.iter().map(|(name, _)| *name).collect(),
            );
            let group = *groups.entry(compared).or_insert_with_key(|(fields, properties)| {
                index.groups.push(FilterGroup {
                    fields: *fields,
                    properties: properties.clone(),
                    filters: ByHash::default(),
                });
                index.groups.len() as u32 - 1
            });
            index.groups[group as usize].insert(filter, &properties, target);
        }
        index.index_groups();
        index
    }

    /// True if there are no filters.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Calls `found` with the rules of each filter that selects the message.
    #[inline]
    pub(super) fn find(&self, view: &MessageView<'_>, mut found: impl FnMut(&[RuleTarget])) {
        let fields = fields_of(view);
        for &group in &self.by_fields {
            self.groups[group as usize].find(&fields, &[], &mut found);
        }
        if self.names.is_empty() {
            return;
        }
        let mut compared: SmallVec<[(NameId, Value<'_>); COMPARED_INLINE]> = SmallVec::new();
        for &(name, value) in view.properties() {
            if let Some(id) = self.known_name(name)
                && compared.iter().all(|(other, _)| *other != id)
            {
                compared.push((id, value));
            }
        }
        for &(name, _) in &compared {
            for &group in &self.by_property[name as usize] {
                self.groups[group as usize].find(&fields, &compared, &mut found);
            }
        }
    }

    fn name_id(&mut self, name: &str) -> NameId {
        if let Some(id) = self.known_name(name) {
            return id;
        }
        let id = self.names.len() as NameId;
        self.names.push(name.to_owned());
        self.names_by_hash
            .entry(property_name::hash(name))
            .or_default()
            .push(id);
        id
    }

    #[inline]
    fn known_name(&self, name: &str) -> Option<NameId> {
        let candidates = self.names_by_hash.get(&property_name::hash(name))?;
        candidates
            .iter()
            .copied()
            .find(|&id| property_name::same(&self.names[id as usize], name))
    }

    /// Lists each group under the property that the fewest groups compare.
    fn index_groups(&mut self) {
        let mut uses = vec![0u32; self.names.len()];
        for name in self.groups.iter().flat_map(|group| &group.properties) {
            uses[*name as usize] += 1;
        }
        self.by_property = vec![Vec::new(); self.names.len()];
        for (id, group) in self.groups.iter().enumerate() {
            match group.properties.iter().min_by_key(|name| uses[**name as usize]) {
                Some(rarest) => self.by_property[*rarest as usize].push(id as u32),
                None => self.by_fields.push(id as u32),
            }
        }
    }
}

impl FilterGroup {
    fn insert(&mut self, filter: &CorrelationFilter, properties: &[(NameId, &OwnedValue)], target: RuleTarget) {
        let fields: Box<[Box<str>]> = filter.fields.iter().flatten().cloned().collect();
        let mut hash = ValuesHash::default();
        fields.iter().for_each(|text| hash.field(text));
        for (_, value) in properties {
            // NaN equals nothing, so the filter selects nothing.
            let Some(value) = ComparableValue::of(value.as_value()) else {
                return;
            };
            hash.property(value);
        }
        let same_hash = self.filters.entry(hash.finish()).or_default();
        let is_same = |known: &IndexedFilter| {
            let values = properties
                .iter()
                .map(|(_, value)| ComparableValue::of(value.as_value()));
            known.fields == fields
                && known
                    .properties
                    .iter()
                    .map(|it| ComparableValue::of(it.as_value()))
                    .eq(values)
        };
        match same_hash.iter_mut().find(|known| is_same(known)) {
            Some(known) => known.targets.push(target),
            None => same_hash.push(IndexedFilter {
                fields,
                properties: properties.iter().map(|(_, value)| (*value).clone()).collect(),
                targets: SmallVec::from_slice(&[target]),
            }),
        }
    }

    #[inline]
    fn find(
        &self,
        fields: &[Option<&str>; FIELDS],
        properties: &[(NameId, Value<'_>)],
        found: &mut impl FnMut(&[RuleTarget]),
    ) {
        let mut hash = ValuesHash::default();
        for (_, text) in self.fields.iter().zip(fields).filter(|(compared, _)| **compared) {
            let Some(text) = text else { return };
            hash.field(text);
        }
        let value_of = |name: &NameId| {
            let (_, value) = properties.iter().find(|(known, _)| known == name)?;
            ComparableValue::of(*value)
        };
        for name in &self.properties {
            let Some(value) = value_of(name) else { return };
            hash.property(value);
        }
        let Some(candidates) = self.filters.get(&hash.finish()) else {
            return;
        };
        for filter in candidates {
            let texts = self.fields.iter().zip(fields).filter(|(compared, _)| **compared);
            let fields_hold = texts
                .map(|(_, text)| *text)
                .eq(filter.fields.iter().map(|text| Some(&**text)));
            let expected = filter
                .properties
                .iter()
                .map(|value| ComparableValue::of(value.as_value()));
            if fields_hold && self.properties.iter().map(value_of).eq(expected) {
                found(&filter.targets);
            }
        }
    }
}

/// A hasher for keys that are already hashes.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        unreachable!("keys are u64: {bytes:?}");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
