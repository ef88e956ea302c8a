// SPDX-License-Identifier: Apache-2.0
// Starts the emulator and prints its port. Each line of the standard input is a command; its end ends the emulator.
import { createInterface } from 'node:readline';
import { AmqpServer } from 'amqp-emulator';

const server = new AmqpServer({ lockDuration: Number(process.argv[2]) });
const { port } = await server.listen();
const serviceBus = server.serviceBus();
serviceBus.createTopic('sales');
serviceBus.createSubscription('sales', 'all');
console.log(port);

for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'disconnect') server.disconnect('a test asked for it');
  console.log('done');
}
await server.close();
