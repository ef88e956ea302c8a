// SPDX-License-Identifier: Apache-2.0
//! Authorization rules in the description of an entity (B-046).

use oxbus_broker::namespace::AuthorizationRuleUpdate;
use oxbus_model::Timestamp;
use oxbus_model::authorization::{AccessRight, AuthorizationRule};

use super::times;
use super::xml::{Element, XmlWriter};
use crate::http::error::HttpError;

/// Reads the new set of rules.
pub(super) fn read(list: &Element) -> Result<Vec<AuthorizationRuleUpdate>, HttpError> {
    list.children.iter().map(rule).collect()
}

fn rule(element: &Element) -> Result<AuthorizationRuleUpdate, HttpError> {
    let text = |name: &str| element.text_of(name).map(str::to_owned);
    let mut rights = Vec::new();
    for right in element.child("Rights").map_or(&[][..], |list| &list.children) {
        let name = right.text.trim();
        let right = AccessRight::from_name(name)
            .ok_or_else(|| HttpError::bad_request(format!("AccessRights must be Manage, Send or Listen: `{name}`")))?;
        if !rights.contains(&right) {
            rights.push(right);
        }
    }
    Ok(AuthorizationRuleUpdate {
        key_name: text("KeyName").unwrap_or_default(),
        primary_key: text("PrimaryKey"),
        secondary_key: text("SecondaryKey"),
        rights,
    })
}

/// Writes the rules of an entity.
pub(super) fn write(rules: &[AuthorizationRule], out: &mut XmlWriter) {
    out.open("AuthorizationRules", "");
    for rule in rules {
        out.open("AuthorizationRule", &format!("i:type=\"{}\"", AuthorizationRule::TYPE));
        out.text("ClaimType", AuthorizationRule::CLAIM_TYPE);
        out.text("ClaimValue", AuthorizationRule::CLAIM_VALUE);
        out.open("Rights", "");
        for right in &rule.rights {
            out.text("AccessRights", right.name());
        }
        out.close("Rights");
        out.text("CreatedTime", times::format_time(Timestamp(rule.created_at_ms)));
        out.text("ModifiedTime", times::format_time(Timestamp(rule.modified_at_ms)));
        out.text("KeyName", &rule.key_name);
        out.text("PrimaryKey", &rule.primary_key);
        out.text_if_some("SecondaryKey", rule.secondary_key.as_ref());
        out.close("AuthorizationRule");
    }
    out.close("AuthorizationRules");
}
