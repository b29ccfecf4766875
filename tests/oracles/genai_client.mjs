// One conversation of npm `@google/genai` with a Gemini Live server: NODE_PATH's packages, Node's own trust.
//
//     node genai_client.mjs NODE_MODULES URL
//
// It asks for the greeting, says something, answers a tool call, and prints what came as one JSON object.
import { createRequire } from "node:module";

const [modules, url] = process.argv.slice(2);
const { GoogleGenAI, Modality } = createRequire(`${modules}/`)("@google/genai");
const RATE = 16000;
const FRAME = RATE / 50;

const told = { kinds: {}, audio_ms: [], transcripts: [], calls: [], closed: null };
let spoken = 0;
let turns = 0;
let session;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function took(message) {
  const content = message.serverContent ?? {};
  for (const key of [...Object.keys(message), ...Object.keys(content)]) {
    told.kinds[key] = (told.kinds[key] ?? 0) + 1;
  }
  for (const part of content.modelTurn?.parts ?? []) {
    if (part.inlineData) spoken += Buffer.from(part.inlineData.data, "base64").length / 48;
  }
  if (content.inputTranscription?.text) told.transcripts.push(content.inputTranscription.text);
  for (const call of message.toolCall?.functionCalls ?? []) {
    told.calls.push({ name: call.name, args: call.args });
    session.sendToolResponse({ functionResponses: [{ id: call.id, name: call.name, response: { until: "six" } }] });
  }
  if (content.turnComplete && spoken) {
    told.audio_ms.push(Math.round(spoken));
    spoken = 0;
    turns += 1;
  }
}

async function say(seconds, level) {
  for (let frame = 0; frame < seconds * 50; frame += 1) {
    const pcm = Buffer.alloc(FRAME * 2);
    for (let at = 0; at < FRAME; at += 1) {
      pcm.writeInt16LE(Math.round(level * Math.sin((frame * FRAME + at) * 2 * Math.PI * 300 / RATE)), at * 2);
    }
    session.sendRealtimeInput({ audio: { data: pcm.toString("base64"), mimeType: `audio/pcm;rate=${RATE}` } });
    await pause(20);
  }
}

async function until(done) {
  for (let waited = 0; waited < 15000 && !done(); waited += 20) await say(0.02, 0);
}

const client = new GoogleGenAI({ apiKey: "gemini-test", httpOptions: { baseUrl: url } });
session = await client.live.connect({
  model: "gemini-3.8-live",
  config: {
    responseModalities: [Modality.AUDIO],
    systemInstruction: "You answer the phone.",
    inputAudioTranscription: {},
    tools: [{ functionDeclarations: [{ name: "query_knowledge", description: "Looks something up." }] }],
  },
  callbacks: {
    onmessage: took,
    onerror: (error) => { told.error = String(error.message ?? error); },
    onclose: (event) => { told.closed = event.code; },
  },
});
session.sendClientContent({ turns: [{ role: "user", parts: [{ text: "Say hello." }] }], turnComplete: true });
await until(() => turns >= 1);
await say(1, 9000);
await until(() => turns >= 2);
session.close();
await pause(200);
console.log(JSON.stringify(told));
process.exit(0);
