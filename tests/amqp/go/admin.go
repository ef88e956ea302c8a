// SPDX-License-Identifier: Apache-2.0

// The administration client of azservicebus: create, read, list, change and delete each kind of entity.
package main

import (
	"os"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func pointer[T any](value T) *T { return &value }

// all reads every page.
func all[P, I any](pager *runtime.Pager[P], items func(P) []I) []I {
	found := []I{}
	for pager.More() {
		found = append(found, items(get(pager.NextPage(ctx)))...)
	}
	return found
}

func administration(kind string) {
	client := get(admin.NewClientFromConnectionString(os.Getenv("OXBUS_CONNECTION_STRING"), nil))
	partitioned := kind == "partitioned"
	queues(client, kind+"-made", partitioned)
	rules(client, kind+"-made-news", partitioned)
}

func queues(client *admin.Client, name string, partitioned bool) {
	wanted := &admin.QueueProperties{
		EnablePartitioning: &partitioned, LockDuration: pointer("PT30S"), MaxDeliveryCount: pointer(int32(3)),
		RequiresSession: pointer(true), UserMetadata: pointer("a note"),
	}
	made := get(client.CreateQueue(ctx, name, &admin.CreateQueueOptions{Properties: wanted}))
	equal(*made.EnablePartitioning, partitioned)
	found := get(client.GetQueue(ctx, name, nil))
	equal([]any{*found.LockDuration, *found.MaxDeliveryCount, *found.RequiresSession, *found.UserMetadata},
		[]any{"PT30S", int32(3), true, "a note"})
	names := []string{}
	for _, item := range all(client.NewListQueuesPager(nil), func(page admin.ListQueuesResponse) []admin.QueueItem { return page.Queues }) {
		names = append(names, item.QueueName)
	}
	equal(slices.Contains(names, name), true)
	found.MaxDeliveryCount = pointer(int32(7))
	equal(*get(client.UpdateQueue(ctx, name, found.QueueProperties, nil)).MaxDeliveryCount, int32(7))
	equal(get(client.GetQueueRuntimeProperties(ctx, name, nil)).TotalMessageCount, int64(0))
	get(client.DeleteQueue(ctx, name, nil))
	// This SDK returns nil for a missing entity.
	equal(get(client.GetQueue(ctx, name, nil)) == nil, true)
}

func rules(client *admin.Client, topic string, partitioned bool) {
	options := &admin.CreateTopicOptions{Properties: &admin.TopicProperties{EnablePartitioning: &partitioned}}
	get(client.CreateTopic(ctx, topic, options))
	equal(*get(client.GetTopic(ctx, topic, nil)).EnablePartitioning, partitioned)
	get(client.CreateSubscription(ctx, topic, "red", nil))
	equal(*get(client.GetSubscription(ctx, topic, "red", nil)).RequiresSession, false)
	equal(len(all(client.NewListSubscriptionsPager(topic, nil), func(page admin.ListSubscriptionsResponse) []admin.SubscriptionPropertiesItem {
		return page.Subscriptions
	})), 1)
	filter := &admin.SQLFilter{Expression: "colour = @colour AND size > @size", Parameters: map[string]any{"@colour": "red", "@size": int64(7)}}
	action := &admin.SQLAction{Expression: "SET seen = TRUE"}
	get(client.CreateRule(ctx, topic, "red", &admin.CreateRuleOptions{Name: pointer("chosen"), Filter: filter, Action: action}))
	rule := get(client.GetRule(ctx, topic, "red", "chosen", nil))
	equal(rule.Filter.(*admin.SQLFilter).Expression, filter.Expression)
	equal(rule.Filter.(*admin.SQLFilter).Parameters, filter.Parameters)
	equal(rule.Action.(*admin.SQLAction).Expression, action.Expression)
	correlation := &admin.CorrelationFilter{Subject: pointer("s"), ApplicationProperties: map[string]any{"key": "value"}}
	get(client.UpdateRule(ctx, topic, "red", admin.RuleProperties{Name: "chosen", Filter: correlation}))
	names := []string{}
	for _, one := range all(client.NewListRulesPager(topic, "red", nil), func(page admin.ListRulesResponse) []admin.RuleProperties { return page.Rules }) {
		names = append(names, one.Name)
		if one.Name == "chosen" {
			equal(one.Filter, correlation)
		}
	}
	equal(slices.Sorted(slices.Values(names)), []string{"$Default", "chosen"})
	get(client.DeleteRule(ctx, topic, "red", "chosen", nil))
	get(client.DeleteSubscription(ctx, topic, "red", nil))
	get(client.DeleteTopic(ctx, topic, nil))
	equal(get(client.GetTopic(ctx, topic, nil)) == nil, true)
}
