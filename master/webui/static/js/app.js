// Begins here: shows the page of the address, and another one when the address changes.

import { useEffect, useErrorBoundary, useRef, useState } from "../vendor/hooks.js";
import { render } from "../vendor/preact.js";
import { api, ok } from "./api.js";
import { component, h } from "./html.js";
import * as keys from "./keys.js";
import * as router from "./router.js";
import { match } from "./routes.js";
import { me } from "./store.js";
import { Problem } from "./widgets/problem.js";
import { Shell } from "./widgets/shell.js";

/** @typedef {import("./routes.js").PageModule} PageModule */

const App = component(() => Shell({ children: Page({}) }));

const Page = component(() => {
  const found = match(router.address.value.path);
  const route = found?.route;
  const [loaded, setLoaded] = useState(
    /** @returns {{ route: unknown, module: PageModule | null, error: Error | null }} */ () => ({
      route: null,
      module: null,
      error: null,
    }),
  );
  useEffect(() => {
    let isWanted = true;
    route?.load().then(
      (module) => isWanted && setLoaded({ route, module, error: null }),
      (error) => isWanted && setLoaded({ route, module: null, error }),
    );
    return () => void (isWanted = false);
  }, [route]);
  const place = router.address.value.path.split("/").slice(0, 2).join("/");
  const before = useRef(place);
  useEffect(() => {
    // Screen readers begin to read there; one that only chose another part of a page stays where it is.
    if (before.current !== place) document.getElementById("main")?.focus({ preventScroll: true });
    before.current = place;
  }, [place]);
  if (!found) return NoPage({});
  if (loaded.route !== found.route) return h("p", { class: "note", role: "status" }, "Loading…");
  if (!loaded.module) return Outdated({});
  return Safe({
    key: place,
    children: loaded.module.default({ params: found.params }),
  });
});

/** A page that fails says so, and the others go on. */
const Safe = component(
  /** @param {{ children: import("./html.js").Children }} props */
  ({ children }) => {
    const [error, reset] = useErrorBoundary((problem) => console.error(problem));
    return error ? Problem({ error, retry: reset }) : children;
  },
);

const NoPage = component(() => {
  document.title = "Not found · Windlass";
  return h(
    "section",
    null,
    h("h1", null, "There is no such page"),
    h(
      "p",
      null,
      "The address is unknown, or its page is not there yet: ",
      h("code", null, "det --help"),
      " lists what ",
      h("code", null, "det"),
      " shows.",
    ),
    h("p", null, h("a", { href: router.href("dashboard") }, "Home")),
  );
});

const Outdated = component(() =>
  h(
    "section",
    { role: "alert" },
    h("h1", null, "This page could not be loaded"),
    h("p", null, "The master was updated, or does not answer."),
    h("button", { type: "button", onClick: () => location.reload() }, "Load it again"),
  ),
);

async function learnWho() {
  try {
    me.value = (await ok(api.GET("/api/v1/me"))).user;
  } catch {
    setTimeout(learnWho, 5_000);
  }
}

router.start();
keys.start();
void learnWho();
render(App({}), document.body);
