// SPDX-License-Identifier: Apache-2.0
//! Contents and changes in JSON.

use oxbus_model::rules::FilterSettings;

use super::*;

fn entry(id: u64) -> EntityEntry {
    EntityEntry {
        id,
        name: format!("Orders/{id}"),
        home: 7,
        created_at_ms: 1,
        updated_at_ms: 2,
        accessed_at_ms: Some(3),
        settings: QueueSettings {
            default_time_to_live_ms: Some(5_000),
            user_metadata: "text with \"quotes\" and é".to_owned(),
            ..QueueSettings::default()
        },
        role: EntityRole::Queue,
    }
}

fn rule(name: &str, filter: FilterSettings) -> RuleSettings {
    RuleSettings {
        name: name.to_owned(),
        filter,
        action: None,
        created_at_ms: 5,
    }
}

fn subscription(id: u64, rules: Vec<RuleSettings>) -> EntityEntry {
    EntityEntry {
        role: EntityRole::Subscription {
            topic: 1,
            dead_letter_failed: false,
            rules,
        },
        ..entry(id)
    }
}

fn encoded(contents: &CatalogContents, changes: &[CatalogChange]) -> CatalogBytes {
    CatalogBytes {
        content: contents.encode(),
        changes: changes.iter().map(CatalogChange::encode).collect(),
        torn_bytes: 0,
    }
}

#[test]
fn contents_survive_a_round_trip() {
    let mut contents = CatalogContents::new(16);
    let (partition, epoch, lsn) = (3, 7, 11);
    contents.fenced.push(FencedEntry { partition, epoch, lsn });
    contents.put(entry(3));
    assert_eq!(contents.next_entity, 4);
    let read = CatalogContents::decode(&encoded(&contents, &[])).expect("own encoding is valid");
    assert_eq!(read, contents);
}

/// Each kind of change has the same effect when it is made and when it is read.
#[test]
fn changes_survive_a_round_trip() {
    let (partition, epoch, lsn) = (3, 7, 11);
    let changed = |name, filter| RuleChange {
        subscription: 5,
        updated_at_ms: 40,
        rule: rule(name, filter),
    };
    let changes = [
        CatalogChange::Put(Box::new(entry(3))),
        CatalogChange::Put(Box::new(subscription(5, vec![rule("$Default", FilterSettings::True)]))),
        CatalogChange::Put(Box::new(entry(6))),
        CatalogChange::AddRule(changed("more", FilterSettings::True)),
        CatalogChange::AddRule(changed("gone", FilterSettings::True)),
        CatalogChange::ReplaceRule(changed("MORE", FilterSettings::False)),
        CatalogChange::RemoveRule {
            subscription: 5,
            updated_at_ms: 41,
            name: "GONE".to_owned(),
        },
        CatalogChange::Fence(FencedEntry { partition, epoch, lsn }),
        CatalogChange::Fence(FencedEntry {
            partition,
            epoch: 9,
            lsn,
        }),
        CatalogChange::ForgetFences { partition, epoch: 9 },
        CatalogChange::Uses(vec![(5, 77), (99, 1)]),
        CatalogChange::Remove(vec![3, 6]),
    ];
    let mut contents = CatalogContents::new(16);
    let before = contents.clone();
    for change in changes.clone() {
        contents.apply(change);
    }
    assert_eq!(
        CatalogContents::decode(&encoded(&before, &changes)).expect("valid"),
        contents
    );
    let rules = vec![
        rule("$Default", FilterSettings::True),
        rule("MORE", FilterSettings::False),
    ];
    let expected = EntityEntry {
        updated_at_ms: 41,
        accessed_at_ms: Some(77),
        ..subscription(5, rules)
    };
    assert_eq!(contents.queues, BTreeMap::from([(5, expected)]));
    assert_eq!(contents.next_entity, 7, "numbers are never reused");
    assert_eq!(contents.fenced.iter().map(|it| it.epoch).collect::<Vec<_>>(), [9]);
}

#[test]
fn unknown_fields_and_changes_are_errors() {
    let content = br#"{"partitions": 1, "next_entity": 1, "queues": [], "topics": []}"#.to_vec();
    let later = CatalogBytes {
        content,
        ..CatalogBytes::default()
    };
    let mut changed = encoded(&CatalogContents::new(1), &[]);
    changed.changes.push(br#"{"rename_topics": []}"#.to_vec());
    for (bytes, unknown) in [(later, "topics"), (changed, "rename_topics")] {
        let error = CatalogContents::decode(&bytes).expect_err(unknown);
        assert_eq!(error.kind(), ErrorKind::InvalidOperation);
        assert!(error.detail().contains(unknown), "{error}");
    }
}

#[test]
fn two_entities_of_one_number_are_an_error() {
    let mut contents = CatalogContents::new(1);
    contents.put(entry(3));
    let mut bytes = encoded(&contents, &[]);
    let text = String::from_utf8(bytes.content).expect("JSON");
    let list = text.find("\"queues\": [").expect("it has a list") + "\"queues\": [".len();
    let entries = &text[list..text.rfind(']').expect("it ends")];
    bytes.content = format!("{}{entries},{entries}]}}", &text[..list]).into_bytes();
    let error = CatalogContents::decode(&bytes).expect_err("twice");
    assert!(error.detail().contains("two entities have the number 3"), "{error}");
}
