export { default } from "openapi-fetch";
export * from "openapi-fetch";
