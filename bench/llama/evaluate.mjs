// Evaluates token ids as one prompt in llama.cpp, on the CPU, and prints the seconds as JSON:
//
//   node evaluate.mjs --packages DIR --model FILE.gguf --tokens FILE.json --labels 1,2
//        --threads N --repeats R --flash-attention on|off
//
// The file holds a list of ids, to which nothing is added. The logits of the labels are taken behind
// the last token; no other token has logits. The cache is cleared before each repeat, and a first
// evaluation is not counted. DIR is where node-llama-cpp is installed (package.json beside this
// file). Nothing is built or downloaded.

import { readFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const text = { type: "string" };
const { values: flags } = parseArgs({
    options: {
        packages: text,
        model: text,
        tokens: text,
        labels: text,
        threads: text,
        repeats: text,
        "flash-attention": text,
    },
});

const packages = path.resolve(flags.packages, "node_modules", "node-llama-cpp");
const { version } = JSON.parse(await readFile(path.join(packages, "package.json"), "utf8"));
const { getLlama } = await import(pathToFileURL(path.join(packages, "dist", "index.js")).href);

const tokens = JSON.parse(await readFile(flags.tokens, "utf8"));
const labels = flags.labels.split(",").map(Number);
const threads = Number(flags.threads);
const flashAttention = flags["flash-attention"] === "on";

const llama = await getLlama({
    gpu: false,
    build: "never",
    skipDownload: true,
    maxThreads: 0, // exactly as many threads as the context asks for
    logLevel: "error",
});
const model = await llama.loadModel({ modelPath: path.resolve(flags.model) });
const context = await model.createContext({
    contextSize: tokens.length + 8,
    batchSize: tokens.length, // the prompt is one batch
    threads,
    flashAttention,
});
const sequence = context.getSequence();

const last = [tokens.at(-1), { generateNext: { logits: { filter: { tokens: labels } } } }];
const prompt = [...tokens.slice(0, -1), last];

async function evaluate() {
    await sequence.clearHistory();
    const started = process.hrtime.bigint();
    const outputs = await sequence.controlledEvaluate(prompt);
    const seconds = Number(process.hrtime.bigint() - started) / 1e9;
    return { seconds, logits: outputs.at(-1).next.logits };
}

const first = await evaluate();
const seconds = [];
for (let repeat = 0; repeat < Number(flags.repeats); repeat++) {
    seconds.push((await evaluate()).seconds);
}
console.log(JSON.stringify({
    version: `node-llama-cpp ${version}, llama.cpp ${llama.llamaCppRelease.release}`,
    threads: context.currentThreads,
    flashAttention: context.flashAttention,
    seconds,
    logits: labels.map((label) => first.logits.get(label)),
}));
await llama.dispose();
