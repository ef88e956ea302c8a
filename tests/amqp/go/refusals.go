// SPDX-License-Identifier: Apache-2.0

// A missing entity and a missing right have different codes of azservicebus and different texts.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

const rootName, rootKey, otherKey = "RootManageSharedAccessKey", "SAS_KEY_VALUE", "a key of another client"

// as is the connection string with another name and another key.
func as(name, key string) string {
	good := os.Getenv("OXBUS_CONNECTION_STRING")
	return strings.NewReplacer(rootName, name, rootKey, key).Replace(good)
}

// hasWords checks that a text contains all words and no key.
func hasWords(text string, words []string) {
	for _, word := range words {
		if !strings.Contains(text, word) {
			check(fmt.Errorf("found %q, expected in it %q", text, word))
		}
	}
	for _, key := range []string{rootKey, "a key of"} {
		if strings.Contains(text, key) {
			check(fmt.Errorf("a key is shown: %q", text))
		}
	}
}

// refuses checks that sending, receiving and browsing fail with that code and those words.
func refuses(connection, entity string, code azservicebus.Code, words []string) {
	client := get(azservicebus.NewClientFromConnectionString(connection, once))
	sender := get(client.NewSender(entity, nil))
	from := get(client.NewReceiverForQueue(entity, nil))
	_, receiving := from.ReceiveMessages(ctx, 1, nil)
	_, browsing := from.PeekMessages(ctx, 1, nil)
	for _, err := range []error{sender.SendMessage(ctx, message("x"), nil), receiving, browsing} {
		var refused *azservicebus.Error
		if !errors.As(err, &refused) {
			check(fmt.Errorf("found error %v, expected one of the code %s", err, code))
		}
		equal(refused.Code, code)
		hasWords(err.Error(), words)
	}
	check(client.Close(ctx))
}

func refusals(queue string) {
	refuses(as(rootName, rootKey), "nowhere", azservicebus.CodeNotFound, []string{"'nowhere' could not be found."})
	for _, entity := range []string{queue, "nowhere"} {
		names := []string{"entity=`" + entity + "`", "InvalidSignature"}
		refuses(as(rootName, otherKey), entity, azservicebus.CodeUnauthorizedAccess,
			append(names, "check SharedAccessKey,", "key name=`"+rootName+"`"))
		refuses(as("nobody", rootKey), entity, azservicebus.CodeUnauthorizedAccess,
			append(names, "check SharedAccessKeyName", "key name=`nobody`"))
	}
	listener := get(azservicebus.NewClientFromConnectionString(as("listener", "a key that may listen"), once))
	sender := get(listener.NewSender(queue, nil))
	err := sender.SendMessage(ctx, message("x"), nil)
	hasCondition(err, "amqp:unauthorized-access")
	hasWords(err.Error(), []string{"'Send' claim(s) are required", "entity=`" + queue + "`", "key name=`listener`"})
	check(listener.Close(ctx))
	manager := get(admin.NewClientFromConnectionString(as(rootName, otherKey), nil))
	_, err = manager.GetQueue(ctx, queue, nil)
	var refused *azcore.ResponseError
	equal(errors.As(err, &refused), true)
	equal(refused.StatusCode, 401)
	hasWords(err.Error(), []string{"check SharedAccessKey,", "entity=`" + queue + "`", "key name=`" + rootName + "`"})
	manager = get(admin.NewClientFromConnectionString(as(rootName, rootKey), nil))
	_, err = manager.DeleteQueue(ctx, "nowhere", nil)
	equal(errors.As(err, &refused), true)
	equal(refused.StatusCode, 404)
	hasWords(err.Error(), []string{"'nowhere' could not be found."})
}
