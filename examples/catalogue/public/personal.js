// Pages are the same for all users. What is one user's is added here.
const name = document.cookie.split("; ").find((part) => part.startsWith("name="))?.slice(5);
if (name) document.getElementById("greeting").textContent = `Hello, ${decodeURIComponent(name)}`;
