"""A RAG application of LangChain and one of LlamaIndex, with a scripted model, for recordings."""

from __future__ import annotations

from typing import Any

DOCUMENTS = {
    "lighthouse": "The lighthouse at Cape Orna was built in 1871. It has had no keeper since 1931.",
    "ferry": "The ferry to Cape Orna leaves at nine on weekdays.",
}
QUESTION = "When was the lighthouse at Cape Orna built?"
ANSWER = "It was built in 1871. A keeper called Jonas lives there."


def langchain_chain() -> Any:
    """Return a chain: retriever, prompt, model, parser."""
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(page_content=text, id=name) for name, text in DOCUMENTS.items()]

    prompt = ChatPromptTemplate.from_template("Passages:\n{context}\n\nQuestion: {question}")
    inputs: Any = {"context": Shelf(), "question": RunnablePassthrough()}
    return inputs | prompt | FakeListChatModel(responses=[ANSWER]) | StrOutputParser()


def llama_index_engine() -> Any:
    """Return a query engine on a retriever and a scripted model."""
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.llms.callbacks import llm_completion_callback
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    class Scripted(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata()

        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **more: Any) -> CompletionResponse:
            return CompletionResponse(text=ANSWER)

        @llm_completion_callback()
        def stream_complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            yield CompletionResponse(text=ANSWER, delta=ANSWER)

    class Shelf(BaseRetriever):
        def _retrieve(self, query: QueryBundle) -> list[NodeWithScore]:
            nodes = [TextNode(text=text, id_=name) for name, text in DOCUMENTS.items()]
            return [NodeWithScore(node=node, score=0.5) for node in nodes]

    return RetrieverQueryEngine.from_args(Shelf(), llm=Scripted())
