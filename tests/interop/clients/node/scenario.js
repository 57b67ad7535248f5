// The unmodified Node client driven by the interop harness; see ../README.md for the protocol.
'use strict';

const crypto = require('crypto');
const fs = require('fs');
const { Consumer, Message, Producer } = require('ali-ons');

const silent = { info() {}, warn() {}, debug() {}, error() {}, log() {} };
const line = object => fs.writeSync(1, JSON.stringify(object) + '\n');
// The library insists on an HTTP client for address look-ups, which a given name server never needs.
const httpclient = { request: async () => { throw new Error('no HTTP here'); } };
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

function body(spec) {
  const [ kind, first, second ] = spec.split(':');
  if (kind === 'text') return Buffer.from(decodeURIComponent(first));
  const out = Buffer.alloc(Number(first));
  if (kind === 'rep') {
    for (let i = 0; i < out.length; i++) out[i] = 97 + (Number(second) + i) % 26;
    return out;
  }
  let x = Math.imul(Number(second), 0x9E3779B1) | 1;
  for (let i = 0; i < out.length; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    out[i] = x & 255;
  }
  return out;
}

function messages(opt) {
  if (opt.messages) {
    return fs.readFileSync(opt.messages[0], 'utf8').split('\n').filter(l => l).map(l => {
      const [ topic, tags, keys, props, spec ] = l.split('\t');
      const m = tags ? new Message(topic, decodeURIComponent(tags), body(spec)) : new Message(topic, body(spec));
      if (!tags) delete m.properties.TAGS; // else the library sends the tag "null"
      if (keys) m.keys = decodeURIComponent(keys).split(' ');
      for (const pair of props.split('&').filter(p => p)) {
        const at = pair.indexOf('=');
        m.properties[decodeURIComponent(pair.slice(0, at))] = decodeURIComponent(pair.slice(at + 1));
      }
      return m;
    });
  }
  const out = [];
  for (let i = 0; i < Number((opt.count || [ '1' ])[0]); i++) {
    const m = new Message(opt.topic[0], 'TagA', body(`rnd:${(opt.size || [ '64' ])[0]}:${i}`));
    m.keys = [ `key-${i}` ];
    m.properties.i = String(i);
    out.push(m);
  }
  return out;
}

async function produce(opt) {
  const producer = new Producer({
    nameSrv: opt.namesrv[0], producerGroup: (opt.group || [ 'interop-producer' ])[0], httpclient, logger: silent, maxMessageSize: 4 << 20, sendMsgTimeout: 10000,
  });
  producer.on('error', err => line({ event: 'error', text: String(err.message) }));
  await producer.ready();
  let failed = 0;
  let n = 0;
  for (const m of messages(opt)) {
    try {
      const r = await producer.send(m);
      line({ n, status: r.sendStatus, msgId: r.msgId, offsetMsgId: r.msgId, topic: m.topic, queueId: Number(r.messageQueue.queueId), queueOffset: Number(r.queueOffset) });
    } catch (err) {
      failed++;
      line({ n, topic: m.topic, error: String(err.message) });
    }
    n++;
    await sleep(Number((opt.interval || [ '0' ])[0]));
  }
  await producer.close();
  return failed ? 1 : 0;
}

function received(m) {
  const content = m.body || Buffer.alloc(0);
  return {
    topic: m.topic, msgId: m.msgId, tags: m.tags || null, keys: m.keys || null, props: m.properties, length: content.length,
    sha256: crypto.createHash('sha256').update(content).digest('hex'), queueId: m.queueId, queueOffset: Number(m.queueOffset), reconsumeTimes: m.reconsumeTimes,
  };
}

async function consume(opt, isBroadcast = false) {
  const number = (name, otherwise) => Number((opt[name] || [ otherwise ])[0]);
  const consumer = new Consumer({
    nameSrv: opt.namesrv[0], consumerGroup: opt.group[0], consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', httpclient, logger: silent, parallelConsumeLimit: 8, isBroadcast,
  });
  consumer.on('error', err => line({ event: 'error', text: String(err.message) }));
  let got = 0;
  let last = Date.now();
  let running = true;
  for (const topic of opt.topic) {
    consumer.subscribe(topic, (opt.tag || [ '*' ])[0], async m => {
      line(isBroadcast ? { topic: m.topic, text: m.body.toString(), queueId: m.queueId } : received(m));
      got++;
      last = Date.now();
      return m.properties.fail && m.reconsumeTimes === 0 ? Consumer.ACTION_RETRY : undefined;
    });
  }
  for (const name of [ 'SIGTERM', 'SIGINT' ]) process.on(name, () => { running = false; });
  await consumer.ready();
  line({ event: 'started' });
  const expect = number('expect', '0');
  const end = Date.now() + number('timeout', '60') * 1000;
  while (running && Date.now() < end && !(expect > 0 && got >= expect && Date.now() - last >= number('quiet', '1') * 1000)) await sleep(20);
  await consumer.close();
  line({ event: 'end', count: got });
  return expect > 0 && got < expect ? 1 : 0;
}

const opt = {};
for (let i = 3; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '');
  (opt[name] = opt[name] || []).push(process.argv[i + 1]);
}
(process.argv[2] === 'produce' ? produce(opt) : consume(opt, process.argv[2] === 'broadcast')).then(code => process.exit(code), err => {
  line({ error: String(err.stack) });
  process.exit(1);
});
