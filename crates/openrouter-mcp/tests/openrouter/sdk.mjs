// OpenRouter's own client asks what our tools ask, and says whether the answers are ones.
import { OpenRouter } from "@openrouter/sdk";

const [serverURL, apiKey, hash, id] = process.argv.slice(1);
const client = new OpenRouter({ apiKey, serverURL, retryConfig: { strategy: "none" } });
const asks = {
  get_credits: () => client.credits.getCredits(),
  get_api_key_info: () => client.apiKeys.getCurrentKeyMetadata(),
  list_models: () => client.models.list(),
  list_models_of: () => client.models.list({ q: "mini", sort: "newest", maxPrice: 0.5, offset: 0, limit: 1 }),
  list_api_keys: () => client.apiKeys.list(),
  get_api_key: () => client.apiKeys.get({ hash }),
  get_generation: () => client.generations.getGeneration({ id }),
};
for (const [name, ask] of Object.entries(asks)) {
  try {
    await ask();
    console.log(JSON.stringify({ name, problem: null }));
  } catch (error) {
    console.log(JSON.stringify({ name, problem: `${error}\n${error.cause ?? ""}` }));
  }
}
