// Logs in by the one-time code of `det web`, which stands behind the `#` of the address.

const code = new URLSearchParams(location.hash.slice(1)).get("code");
const form = document.getElementById("login");
const field = form?.querySelector("input[name=code]");
if (code && form instanceof HTMLFormElement && field instanceof HTMLInputElement) {
  history.replaceState(null, "", location.pathname + location.search);
  field.value = code;
  form.submit();
}
