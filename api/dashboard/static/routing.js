// How the pool is routed, and how it should be.
import { el } from "./dom.js";
import { advice } from "./advice.js";
import { settings } from "./settings.js";

// changed and refused are told of what is set, as by settings.
export function routing(root, changed, refused) {
  const form = settings(changed, refused);
  const advisor = advice((change) => form.set(change));
  root.append(el("div", { class: "routing" }, form.node, advisor.node));
  return {
    render({ pool, routing: config }) {
      if (!config) return;
      form.render(pool, config);
      advisor.render(pool, config.config);
    },
  };
}
